from __future__ import annotations

import numpy as np
import pytest

from danaus._config.encodings import Encoding
from danaus._config.kinds import Choice, Duration, Flag, Integer, Kind, Share, Text, Transport
from danaus._config.transports import BindSpec, ChannelTransport


@pytest.mark.parametrize(
    ("kind", "value", "plain"),
    [
        (Flag(), True, True),
        (Integer(), 0, 0),
        (Integer(), np.int32(7), 7),
        (Integer(optional=True), None, None),
        (Share(), 1, 1.0),
        (Share(), np.float64(0.5), 0.5),
        (Text(), "", ""),
        (Duration(), "90s", "1m 30s"),
        (Choice(), Encoding.Json, "Json"),
        (Transport(), ChannelTransport.Unix, "unix"),
        (Transport(), BindSpec("tcp"), "tcp"),
        (Transport(), "tcp(hostname)", "tcp"),
    ],
)
def test_a_value_of_its_type_is_stored_plain(kind: Kind, value: object, plain: object) -> None:
    stored = kind.accept(value)

    assert stored == plain
    assert type(stored) is type(plain)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Flag(), "true"),
        (Flag(), 1),
        (Integer(), "100"),
        (Integer(), True),
        (Integer(), 1.0),
        (Integer(), int),
        (Integer(), None),
        (Share(), "0.5"),
        (Share(), True),
        (Text(), b"bytes"),
        (Text(), None),
        (Duration(), 30),
        (Duration(), 30.5),
        (Choice(), "Json"),
        (Choice(), 123),
        (Transport(), 42),
        (Transport(), {}),
    ],
)
def test_a_value_of_another_type_is_refused_with_what_was_expected(
    kind: Kind, value: object
) -> None:
    with pytest.raises(TypeError, match=r"^expected .*, got .*"):
        kind.accept(value)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Integer(), -1),
        (Integer(minimum=1), 0),
        (Integer(), 2**63),
        pytest.param(Integer(), 10**5000, id="5001 digits"),
        (Share(), 1.01),
        (Share(), -0.5),
        (Share(), float("nan")),
    ],
)
def test_a_value_out_of_range_is_refused_with_the_range(kind: Kind, value: object) -> None:
    with pytest.raises(ValueError, match=r"^expected .* (from|to) .*, got .*"):
        kind.accept(value)


@pytest.mark.parametrize(
    ("kind", "text", "plain"),
    [
        (Flag(), "1", True),
        (Flag(), " Yes ", True),
        (Flag(), "OFF", False),
        (Integer(), " 12 ", 12),
        (Share(), "0.25", 0.25),
        (Text(), "any text", "any text"),
        (Duration(), "120s", "2m"),
        (Choice(), "json", "Json"),
        (Transport(), "ipc", "unix"),
    ],
)
def test_a_text_of_the_environment_is_read_by_its_kind(
    kind: Kind, text: str, plain: object
) -> None:
    assert kind.accept_text(text) == plain


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Flag(), "maybe"),
        (Integer(), "many"),
        (Integer(), "1.5"),
        (Integer(), "-1"),
        (Integer(), "9" * 5000),
        (Share(), "half"),
        (Share(), "nan"),
        (Choice(), "xml"),
        (Transport(), "pigeon"),
    ],
)
def test_a_text_that_is_no_value_is_refused(kind: Kind, text: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        kind.accept_text(text)

    assert text[:10] in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "value", "public", "effective"),
    [
        (Duration(), "1500ms", "1s 500ms", 1.5),
        (Choice(), Encoding.Bincode, Encoding.Bincode, "Bincode"),
        (Transport(), "tcp", BindSpec("tcp"), "tcp"),
        (Integer(), 5, 5, 5),
    ],
)
def test_programs_and_the_runtime_each_see_a_form_of_their_own(
    kind: Kind, value: object, public: object, effective: object
) -> None:
    plain = kind.accept(value)

    assert kind.public(plain) == public
    assert kind.effective(plain) == effective


@pytest.mark.parametrize(
    "value", ["x" * 10_000, [0] * 10_000, pytest.param(10**5000, id="int"), np.zeros(10_000)]
)
def test_an_error_never_shows_a_whole_value(value: object) -> None:
    with pytest.raises((TypeError, ValueError), match="expected") as caught:
        Integer().accept(value)

    assert len(str(caught.value)) < 200
