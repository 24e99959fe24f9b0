from __future__ import annotations

import pickle

import pytest

from danaus._config.transports import BindSpec, ChannelTransport


@pytest.mark.parametrize("transport", ChannelTransport)
def test_a_transport_survives_pickling_by_kind_and_as_bind_spec(
    transport: ChannelTransport,
) -> None:
    spec = BindSpec(transport)

    assert pickle.loads(pickle.dumps(transport)) is transport
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert spec.transport is transport


@pytest.mark.parametrize(
    ("text", "transport"),
    [
        ("tcp", ChannelTransport.TcpWithHostname),
        ("tcp(hostname)", ChannelTransport.TcpWithHostname),
        ("tcp(localhost)", ChannelTransport.TcpWithLocalhost),
        ("ipc", ChannelTransport.Unix),
        ("unix", ChannelTransport.Unix),
    ],
)
def test_a_kind_may_be_given_as_text(text: str, transport: ChannelTransport) -> None:
    assert BindSpec(text) == BindSpec(transport)
    assert hash(BindSpec(text)) == hash(BindSpec(transport))


@pytest.mark.parametrize(
    "address",
    [
        "tcp://127.0.0.1:8080",
        "tcp://[::1]:0",
        "tcp://*:26600",
        "tcp://localhost:fd7",
        "tcp://node7.example.org:26600@tcp://0.0.0.0:26600",
        "ipc:///tmp/worker.sock",
        "ipc:///tmp/a@b.sock",
    ],
)
def test_an_address_is_kept_as_it_was_given(address: str) -> None:
    assert BindSpec(address).text == address
    assert BindSpec(address).transport is None
    assert BindSpec(address) != BindSpec("tcp")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "random_string",
        "invalid://scheme",
        "tcp://",
        "tcp://host",
        "tcp://host:port",
        "tcp://host:65536",
        "tcp://:80",
        "tcp://host:²",
        "tcp://host:" + "9" * 5000,
        "tcp://a:1@tcp://b",
        "ipc://",
    ],
)
def test_a_text_that_names_no_transport_is_refused_with_the_forms_that_do(text: str) -> None:
    with pytest.raises(ValueError, match="names no transport") as caught:
        BindSpec(text)

    assert "'tcp://0.0.0.0:26600'" in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_value_of_another_type_is_refused() -> None:
    with pytest.raises(TypeError, match="expected a transport, got int"):
        BindSpec(42)  # pyright: ignore[reportArgumentType]


def test_a_bind_spec_cannot_be_changed() -> None:
    spec = BindSpec("tcp")

    with pytest.raises(AttributeError, match="immutable"):
        spec.text = "unix"
    with pytest.raises(AttributeError, match="immutable"):
        del spec.text


def test_a_bind_spec_shows_its_text() -> None:
    assert repr(BindSpec("ipc")) == "BindSpec('unix')"
