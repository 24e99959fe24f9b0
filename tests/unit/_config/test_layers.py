from __future__ import annotations

import json
from collections.abc import Callable
from threading import Thread
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danaus._config.encodings import Encoding
from danaus._config.keys import KEYS
from danaus._config.layers import Layers
from danaus._config.transports import BindSpec

if TYPE_CHECKING:
    from danaus._config.kinds import Plain


def defaults(**environment: Plain) -> Callable[[], dict[str, Plain]]:
    return lambda: {key.name: key.default for key in KEYS.values()} | environment


@pytest.fixture
def layers() -> Layers:
    return Layers(defaults(max_cast_fanout=4))


def test_the_runtime_layer_is_stronger_than_the_ones_below(layers: Layers) -> None:
    layers.set({"max_cast_fanout": 2})

    assert layers.get("max_cast_fanout") == 2
    assert layers.get_all()["max_cast_fanout"] == 2
    assert layers.get_runtime() == {"max_cast_fanout": 2}


def test_clearing_the_runtime_layer_shows_the_ones_below(layers: Layers) -> None:
    layers.set({"max_cast_fanout": 2})

    layers.clear()

    assert layers.get("max_cast_fanout") == 4
    assert layers.get_runtime() == {}


def test_the_runtime_gets_seconds_and_programs_get_text(layers: Layers) -> None:
    layers.set({"cleanup_timeout": "1500ms", "default_encoding": Encoding.Json})

    assert layers.get("cleanup_timeout") == 1.5
    assert layers.get_all()["cleanup_timeout"] == "1s 500ms"
    assert layers.get_runtime()["default_encoding"] is Encoding.Json
    assert layers.get_all()["default_transport"] == BindSpec("unix")


def test_what_a_caller_gets_is_a_copy(layers: Layers) -> None:
    layers.get_all()["max_cast_fanout"] = 99
    layers.get_runtime()["max_cast_fanout"] = 99
    layers.snapshot()["max_cast_fanout"] = 99

    assert layers.get("max_cast_fanout") == 4


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ({"max_cast_fanouts": 2}, "unknown config key 'max_cast_fanouts'"),
        ({"cleanup_timeout": "soon"}, "config key 'cleanup_timeout': Invalid duration format"),
        ({"tail_log_lines": -1}, "config key 'tail_log_lines': expected an int from 0"),
    ],
)
def test_after_an_error_every_key_is_as_it_was(
    layers: Layers, bad: dict[str, object], error: str
) -> None:
    before = layers.get_all()

    with pytest.raises((ValueError, TypeError), match=error):
        layers.set({"max_cast_fanout": 2, **bad})

    assert layers.get_all() == before
    assert layers.get_runtime() == {}


def test_restoring_puts_back_the_named_keys_and_leaves_the_others(layers: Layers) -> None:
    layers.set({"max_cast_fanout": 3})
    before = layers.set({"max_cast_fanout": 2, "tail_log_lines": 5})
    layers.set({"cleanup_timeout": "9s"})

    layers.restore(["max_cast_fanout", "tail_log_lines"], before)

    assert layers.get_runtime() == {"max_cast_fanout": 3, "cleanup_timeout": "9s"}


def test_an_unknown_key_is_refused_when_read(layers: Layers) -> None:
    with pytest.raises(ValueError, match="Did you mean 'cleanup_timeout'"):
        layers.get("cleanup_timeouts")


def test_the_layers_below_are_read_at_the_first_use_and_once() -> None:
    reads: list[int] = []

    def read() -> dict[str, Plain]:
        reads.append(1)
        return defaults()()

    layers = Layers(read)
    assert reads == []
    layers.get("tail_log_lines")
    layers.set({"tail_log_lines": 5})
    layers.get_all()

    assert reads == [1]


def test_a_bad_source_fails_each_use_until_it_is_mended() -> None:
    problems = ["environment variable X is wrong"]

    def read() -> dict[str, Plain]:
        for problem in problems:
            raise ValueError(problem)
        return defaults()()

    layers = Layers(read)
    with pytest.raises(ValueError, match="X is wrong"):
        layers.get("tail_log_lines")
    with pytest.raises(ValueError, match="X is wrong"):
        layers.set({"tail_log_lines": 5})
    problems.clear()

    assert layers.get("tail_log_lines") == 100


def test_reloading_reads_the_layers_below_again_and_keeps_the_runtime_layer() -> None:
    values = defaults()()
    layers = Layers(lambda: dict(values))
    layers.set({"tail_log_lines": 5})
    values.update(max_cast_fanout=8, tail_log_lines=9)

    layers.reload()

    assert (layers.get("max_cast_fanout"), layers.get("tail_log_lines")) == (8, 5)


SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "cleanup_timeout": st.integers(0, 10**6).map(lambda ms: f"{ms}ms"),
        "tail_log_lines": st.integers(0, 2**63 - 1),
        "prefix_with_rank": st.booleans(),
        "message_latency_sampling_rate": st.floats(0, 1),
        "rdma_ibverbs_target": st.text(),
        "rdma_max_nics_per_buffer": st.none() | st.integers(1, 16),
        "default_encoding": st.sampled_from(Encoding),
        "default_transport": st.sampled_from(["tcp", "unix", "tcp://h:1"]),
    },
)


@given(SETTINGS)
def test_a_snapshot_travels_as_json_and_gives_the_same_runtime_layer(
    settings: dict[str, object],
) -> None:
    client, proc = Layers(defaults()), Layers(defaults())
    client.set(settings)

    proc.install(json.loads(json.dumps(client.snapshot())))

    assert proc.get_runtime() == client.get_runtime()
    assert proc.get_all() == client.get_all()


def test_installing_replaces_the_runtime_layer_and_reads_the_layers_below_again() -> None:
    values = defaults()()
    layers = Layers(lambda: dict(values))
    layers.set({"tail_log_lines": 5})
    values.update(max_cast_fanout=8)

    layers.install({"cleanup_timeout": "9s"})

    assert layers.get_runtime() == {"cleanup_timeout": "9s"}
    assert (layers.get("max_cast_fanout"), layers.get("tail_log_lines")) == (8, 100)


def test_a_bad_snapshot_changes_nothing_and_says_where_it_came_from(layers: Layers) -> None:
    layers.set({"tail_log_lines": 5})

    with pytest.raises(TypeError, match="config key 'cleanup_timeout' from the client"):
        layers.install({"max_cast_fanout": 2, "cleanup_timeout": 3})

    assert layers.get_runtime() == {"tail_log_lines": 5}


def test_a_setting_of_another_thread_in_between_is_not_lost() -> None:
    others: list[Thread] = []

    def read() -> dict[str, Plain]:
        # Called in the middle of the first set(): the other thread has to wait until it is done.
        if not others:
            others.append(Thread(target=layers.set, args=({"tail_log_lines": 5},)))
            others[0].start()
            others[0].join(0.05)
        return defaults()()

    layers = Layers(read)
    layers.set({"max_cast_fanout": 2})
    others[0].join(5)

    assert layers.get_runtime() == {"max_cast_fanout": 2, "tail_log_lines": 5}


def test_later_settings_leave_alone_what_restoring_needs(layers: Layers) -> None:
    layers.set({"tail_log_lines": 5})
    before = layers.set({"tail_log_lines": 6})
    layers.set({"tail_log_lines": 7, "max_cast_fanout": 2})

    assert before == {"tail_log_lines": 5}
