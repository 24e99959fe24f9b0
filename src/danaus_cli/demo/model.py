"""The language model of the demo: what a trainer computes, and nothing of where it runs.

A character is predicted from the characters before it: they are looked up in an embedding table,
put side by side, sent through one hidden layer, and a softmax over the alphabet gives the odds of
each character (the neural language model of Bengio et al., 2003, with a rectifier). All weights
lie in one flat vector, so that gradients and weights travel as one buffer.

Trainers exchange gradients as **fixed-point integers**. A sum of integers is the same in every
order; a sum of floats is not, and replies arrive in any order. A seed therefore gives the same
run to the last bit, also when a trainer is killed on the way and brought back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "Adam",
    "FloatArray",
    "Gradient",
    "IntegerArray",
    "Model",
    "ModelSize",
    "SymbolArray",
    "Weights",
    "learning_rate",
]

FloatArray: TypeAlias = NDArray[np.floating[Any]]
IntegerArray: TypeAlias = NDArray[np.int32]
SymbolArray: TypeAlias = NDArray[np.uint8]

#: Units of a fixed-point gradient in 1.0: a resolution of 6e-8, that of a float32 near 1.
UNITS = 1 << 24
#: Gradients are clipped to this magnitude; with `UNITS` it lets 64 trainers add up in 32 bits.
CLIP = 2.0 - 2.0**-23
#: Units of a fixed-point loss in one nat. Python's integers do not overflow.
LOSS_UNITS = 1 << 32
#: Largest number of gradients that can be added without overflow.
MAX_GRADIENTS = 64


@dataclass(frozen=True, slots=True)
class ModelSize:
    """The dimensions of a model."""

    symbols: int
    """Number of symbols of the alphabet."""
    context: int
    """Number of characters that a prediction looks at."""
    embedding: int
    """Numbers that describe one character."""
    hidden: int
    """Units of the hidden layer."""

    def parts(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the weight arrays, in the order of `Weights`."""
        return (
            (self.symbols, self.embedding),
            (self.context * self.embedding, self.hidden),
            (self.hidden,),
            (self.hidden, self.symbols),
            (self.symbols,),
        )

    @property
    def parameters(self) -> int:
        """The number of weights."""
        return sum(math.prod(shape) for shape in self.parts())

    def split(self, flat: FloatArray) -> Weights:
        """Views of the single arrays in a flat vector of `parameters` numbers."""
        return Weights(*self._views(flat))

    def _views(self, flat: FloatArray) -> Iterator[FloatArray]:
        start = 0
        for shape in self.parts():
            end = start + math.prod(shape)
            yield flat[start:end].reshape(shape)
            start = end


class Weights(NamedTuple):
    """The arrays of a model, or of a gradient of one."""

    embedding: FloatArray
    """Shape ``(symbols, embedding)``."""
    inner: FloatArray
    """Shape ``(context * embedding, hidden)``."""
    inner_bias: FloatArray
    """Shape ``(hidden,)``."""
    outer: FloatArray
    """Shape ``(hidden, symbols)``."""
    outer_bias: FloatArray
    """Shape ``(symbols,)``."""


@dataclass(frozen=True, slots=True)
class Gradient:
    """The gradients of some trainers for one step, added up, in fixed point.

    Adding is exact, hence free of order: ``a.plus(b) == b.plus(a)`` to the last bit.
    """

    units: IntegerArray
    """The sum of the trainers' mean gradients, in units of 1 / `UNITS`."""
    loss: int
    """The sum of the trainers' mean losses, in nats per `LOSS_UNITS`."""
    trainers: int
    """How many gradients are in the sum."""

    @staticmethod
    def zero(parameters: int) -> Gradient:
        """The sum of no gradients."""
        return Gradient(np.zeros(parameters, np.int32), 0, 0)

    @staticmethod
    def of(gradient: FloatArray, loss: float) -> Gradient:
        """One trainer's mean gradient and mean loss over its batch."""
        units = np.rint(np.clip(gradient, -CLIP, CLIP) * UNITS).astype(np.int32)
        return Gradient(units, round(loss * LOSS_UNITS), 1)

    def plus(self, other: Gradient) -> Gradient:
        """The sum of both.

        Raises:
            OverflowError: There would be more than `MAX_GRADIENTS` gradients in it.
        """
        trainers = self.trainers + other.trainers
        if trainers > MAX_GRADIENTS:
            raise OverflowError(f"{trainers} gradients do not fit; at most {MAX_GRADIENTS} do")
        return Gradient(self.units + other.units, self.loss + other.loss, trainers)

    def mean(self) -> FloatArray:
        """The gradient averaged over the trainers, as numbers."""
        return self.units.astype(np.float32) * np.float32(1.0 / (UNITS * self.trainers))

    def mean_loss(self) -> float:
        """The loss averaged over the trainers, in nats a character."""
        return self.loss / (LOSS_UNITS * self.trainers)


class Model:
    """A model with its weights.

    Args:
        size: Its dimensions.
        seed: Decides the first weights; every trainer that is given the same one starts equal.
        dtype: float32 to train; float64 lets a test compare gradients with differences.

    Attributes:
        size: Its dimensions.
        flat: All weights, shape ``(size.parameters,)``; `weights` are views of it.
        weights: The single arrays.
    """

    def __init__(
        self, size: ModelSize, seed: int, dtype: type[np.floating[Any]] = np.float32
    ) -> None:
        self.size = size
        self.flat: FloatArray = np.zeros(size.parameters, dtype)
        self.weights = size.split(self.flat)
        random = np.random.default_rng(seed)
        # He et al., 2015, for the rectifier. The last layer starts small: first all symbols are
        # about equally likely and the loss is ln(symbols).
        wide = size.context * size.embedding
        self.weights.embedding[:] = random.normal(0, 0.3, self.weights.embedding.shape)
        self.weights.inner[:] = random.normal(0, math.sqrt(2 / wide), self.weights.inner.shape)
        self.weights.outer[:] = random.normal(
            0, 0.1 * math.sqrt(2 / size.hidden), self.weights.outer.shape
        )

    def loss(self, contexts: SymbolArray, targets: SymbolArray) -> float:
        """The mean loss over a batch, in nats a character.

        Args:
            contexts: Shape ``(batch, context)``: the characters before each target.
            targets: Shape ``(batch,)``: the characters to predict.
        """
        _, _, odds = self._forward(contexts)
        return _mean_loss(odds, targets)

    def loss_and_gradient(
        self, contexts: SymbolArray, targets: SymbolArray
    ) -> tuple[float, FloatArray]:
        """The mean loss over a batch, and its gradient as a flat vector; arguments as `loss`."""
        inputs, hidden, odds = self._forward(contexts)
        loss = _mean_loss(odds, targets)

        flat = np.empty_like(self.flat)
        gradient = self.size.split(flat)
        batch = len(targets)
        error = odds  # of the last layer's output: odds minus what was true, over the batch
        error[np.arange(batch), targets] -= 1
        error /= batch
        np.matmul(hidden.T, error, out=gradient.outer)
        error.sum(axis=0, out=gradient.outer_bias)
        error = error @ self.weights.outer.T
        error *= hidden > 0
        np.matmul(inputs.T, error, out=gradient.inner)
        error.sum(axis=0, out=gradient.inner_bias)
        error = error @ self.weights.inner.T
        rows = error.reshape(-1, self.size.embedding)
        gradient.embedding[:] = _sum_by_symbol(contexts.reshape(-1), rows, self.size.symbols)
        return loss, flat

    def generate(
        self, prompt: SymbolArray, count: int, *, temperature: float, seed: int
    ) -> SymbolArray:
        """Continue a text by ``count`` drawn characters.

        Args:
            prompt: The text so far, at least one symbol; what is missing in front of it is
                filled up with its first symbol.
            count: Characters to add.
            temperature: Below 1 favours likely characters, above 1 unlikely ones.
            seed: The same seed draws the same text.

        Returns:
            The added symbols, shape ``(count,)``.
        """
        random = np.random.default_rng(seed)
        context = self.size.context
        text = np.empty(context + count, np.uint8)
        text[:context] = prompt[0]
        kept = prompt[-context:]
        text[context - len(kept) : context] = kept
        for place in range(context, context + count):
            _, _, odds = self._forward(text[np.newaxis, place - context : place])
            sharpened = np.power(odds[0].astype(np.float64), 1 / temperature)
            sums = np.cumsum(sharpened)
            text[place] = np.searchsorted(sums, random.random() * sums[-1], side="right")
        return text[context:]

    def _forward(self, contexts: SymbolArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        inputs = self.weights.embedding[contexts].reshape(len(contexts), -1)
        hidden = inputs @ self.weights.inner
        hidden += self.weights.inner_bias
        np.maximum(hidden, 0, out=hidden)
        odds = hidden @ self.weights.outer
        odds += self.weights.outer_bias
        odds -= odds.max(axis=1, keepdims=True)
        np.exp(odds, out=odds)
        odds /= odds.sum(axis=1, keepdims=True)
        return inputs, hidden, odds


class Adam:
    """The optimizer of Kingma and Ba, 2015, on a flat vector.

    Attributes:
        first: Running mean of the gradient, shape ``(parameters,)``.
        second: Running mean of its square.
        step: Steps that were made.
    """

    #: Decay of the running means. The second is faster than the paper's 0.999: runs are short.
    FIRST_DECAY, SECOND_DECAY = 0.9, 0.98
    TINY = 1e-8

    def __init__(self, parameters: int) -> None:
        self.first: FloatArray = np.zeros(parameters, np.float32)
        self.second: FloatArray = np.zeros(parameters, np.float32)
        self.step = 0

    def update(self, flat: FloatArray, gradient: FloatArray, rate: float) -> None:
        """Change the weights in place by one step.

        Args:
            flat: The weights.
            gradient: Of the loss, by those weights.
            rate: About the size of the change of each weight.
        """
        self.step += 1
        self.first += (1 - self.FIRST_DECAY) * (gradient - self.first)
        self.second += (1 - self.SECOND_DECAY) * (gradient * gradient - self.second)
        first_scale = rate / (1 - self.FIRST_DECAY**self.step)
        second_scale = 1 / (1 - self.SECOND_DECAY**self.step)
        flat -= first_scale * self.first / (np.sqrt(second_scale * self.second) + self.TINY)


def learning_rate(step: int, steps: int, *, peak: float = 8e-3, warm_up: int = 20) -> float:
    """The rate of a step: up in a straight line to ``peak``, then down along a cosine to zero.

    Args:
        step: Counted from 0.
        steps: How many there will be.
        peak: The highest rate.
        warm_up: Steps until the highest rate.
    """
    rise = min(1.0, (step + 1) / warm_up)
    return peak * rise * (0.5 + 0.5 * math.cos(math.pi * step / steps))


def _mean_loss(odds: FloatArray, targets: SymbolArray) -> float:
    right = odds[np.arange(len(targets)), targets]
    return float(-np.log(np.maximum(right, 1e-30)).mean())


def _sum_by_symbol(symbols: SymbolArray, rows: FloatArray, count: int) -> FloatArray:
    """For each symbol the sum of its rows; ten times as fast as ``numpy.add.at``."""
    order = np.argsort(symbols, kind="stable")
    found, starts = np.unique(symbols[order], return_index=True)
    sums = np.zeros((count, rows.shape[1]), rows.dtype)
    sums[found] = np.add.reduceat(rows[order], starts, axis=0)
    return sums
