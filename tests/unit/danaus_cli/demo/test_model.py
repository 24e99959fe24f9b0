"""The numbers of the demo's model, without any process."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from danaus_cli.demo.model import (
    CLIP,
    MAX_GRADIENTS,
    Adam,
    Gradient,
    Model,
    ModelSize,
    learning_rate,
)

TINY = ModelSize(symbols=5, context=3, embedding=2, hidden=4)


def tiny_batch(size=TINY, count=7):
    random = np.random.default_rng(1)
    contexts = random.integers(0, size.symbols, (count, size.context)).astype(np.uint8)
    targets = random.integers(0, size.symbols, count).astype(np.uint8)
    return contexts, targets


def test_parameters_are_counted_over_all_arrays():
    assert TINY.parameters == 5 * 2 + 6 * 4 + 4 + 4 * 5 + 5


def test_weights_are_views_of_the_flat_vector():
    model = Model(TINY, seed=0)
    model.flat[:] = 0

    model.weights.outer_bias[-1] = 3.0

    assert model.flat[-1] == 3.0


def test_gradient_equals_the_slope_of_the_loss_in_every_weight():
    model = Model(TINY, seed=3, dtype=np.float64)
    model.flat[:] = np.random.default_rng(4).normal(0, 0.5, TINY.parameters)
    contexts, targets = tiny_batch()
    loss, gradient = model.loss_and_gradient(contexts, targets)

    slopes = np.empty_like(model.flat)
    for place in range(TINY.parameters):
        at, model.flat[place] = model.flat[place], model.flat[place] + 1e-6
        above = model.loss(contexts, targets)
        model.flat[place] = at - 1e-6
        below = model.loss(contexts, targets)
        model.flat[place] = at
        slopes[place] = (above - below) / 2e-6

    assert loss == pytest.approx(model.loss(contexts, targets))
    assert np.abs(gradient).max() > 0.05
    np.testing.assert_allclose(gradient, slopes, atol=1e-8)


def test_gradient_of_a_batch_is_the_mean_over_its_halves():
    model = Model(TINY, seed=3, dtype=np.float64)
    contexts, targets = tiny_batch(count=8)

    whole = model.loss_and_gradient(contexts, targets)[1]
    first = model.loss_and_gradient(contexts[:4], targets[:4])[1]
    second = model.loss_and_gradient(contexts[4:], targets[4:])[1]

    np.testing.assert_allclose(whole, (first + second) / 2, atol=1e-12)


def test_a_new_model_finds_all_symbols_about_equally_likely():
    size = ModelSize(symbols=97, context=16, embedding=24, hidden=64)
    model = Model(size, seed=0)

    loss = model.loss(*tiny_batch(size, count=200))

    assert loss == pytest.approx(math.log(97), abs=0.1)


def test_a_model_learns_a_text_that_repeats():
    size = ModelSize(symbols=5, context=3, embedding=4, hidden=16)
    text = np.array([0, 1, 2, 3, 4, 2, 1] * 20, np.uint8)
    starts = np.arange(len(text) - 3)
    contexts, targets = text[starts[:, None] + np.arange(3)], text[starts + 3]
    model, optimizer = Model(size, seed=0), Adam(size.parameters)
    before = model.loss(contexts, targets)

    for _ in range(60):
        _, gradient = model.loss_and_gradient(contexts, targets)
        optimizer.update(model.flat, gradient, 0.02)

    assert before > 1.5
    assert model.loss(contexts, targets) < 0.05
    written = model.generate(text[:3], 8, temperature=0.1, seed=0)
    assert written.tolist() == [3, 4, 2, 1, 0, 1, 2, 3]


def test_the_same_seed_writes_the_same_and_another_does_not():
    model = Model(TINY, seed=0)
    prompt = np.array([1], np.uint8)

    first = model.generate(prompt, 30, temperature=1.0, seed=5)

    assert first.tolist() == model.generate(prompt, 30, temperature=1.0, seed=5).tolist()
    assert first.tolist() != model.generate(prompt, 30, temperature=1.0, seed=6).tolist()


def test_generating_looks_at_no_more_of_the_prompt_than_the_context():
    model = Model(TINY, seed=0)
    short, long = np.array([1, 2, 3], np.uint8), np.array([4, 4, 1, 2, 3], np.uint8)

    written = model.generate(short, 10, temperature=1.0, seed=5)

    assert written.tolist() == model.generate(long, 10, temperature=1.0, seed=5).tolist()


def test_adam_makes_its_first_step_as_long_as_the_rate_against_the_gradient():
    flat = np.zeros(3, np.float32)

    Adam(3).update(flat, np.array([2.0, -0.001, 0.0], np.float32), 0.1)

    np.testing.assert_allclose(flat, [-0.1, 0.1, 0.0], rtol=1e-3)


@given(st.permutations(range(6)), st.integers(0, 2**32))
def test_gradients_add_up_to_the_same_bits_in_any_order(order, seed):
    random = np.random.default_rng(seed)
    parts = [
        Gradient.of(random.normal(0, 1, 20).astype(np.float32), random.random()) for _ in range(6)
    ]

    forwards, permuted = Gradient.zero(20), Gradient.zero(20)
    for place in range(6):
        forwards = forwards.plus(parts[place])
        permuted = permuted.plus(parts[order[place]])

    assert permuted.mean().tobytes() == forwards.mean().tobytes()
    assert permuted.mean_loss() == forwards.mean_loss()


def test_the_mean_of_gradients_is_exact_to_the_resolution_of_fixed_point():
    random = np.random.default_rng(0)
    vectors = random.normal(0, 0.1, (4, 50)).astype(np.float32)

    total = Gradient.zero(50)
    for vector in vectors:
        total = total.plus(Gradient.of(vector, 2.5))

    np.testing.assert_allclose(total.mean(), vectors.mean(axis=0), atol=1e-7)
    assert total.mean_loss() == 2.5
    assert total.trainers == 4


def test_as_many_gradients_as_are_allowed_add_up_without_overflow():
    largest = Gradient.of(np.array([1e9, -1e9], np.float32), 1.0)
    total = Gradient.zero(2)

    for _ in range(MAX_GRADIENTS):
        total = total.plus(largest)

    np.testing.assert_allclose(total.mean(), [CLIP, -CLIP])
    with pytest.raises(OverflowError, match="65 gradients do not fit; at most 64 do"):
        total.plus(largest)


def test_the_learning_rate_rises_then_falls_to_zero():
    rates = [learning_rate(step, 100, peak=0.5, warm_up=10) for step in range(100)]

    assert rates[0] == pytest.approx(0.05)
    assert max(rates) == rates[9]
    assert rates[9:] == sorted(rates[9:], reverse=True)
    assert learning_rate(100, 100) == pytest.approx(0)
