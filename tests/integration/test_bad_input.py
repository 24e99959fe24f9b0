"""What cannot be: each is a clear error, as early as it can be known (no process is needed)."""

from __future__ import annotations

from typing import Any

import pytest

from danaus.actor import Channel, send, this_host
from tests.integration.spawn_actors import Inspector


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"per_host": 4}, TypeError, "per_host names its dimensions"),
        ({"per_host": [("gpus", 1)]}, TypeError, "per_host names its dimensions"),
        ({"per_host": {"": 2}}, ValueError, "needs a name"),
        ({"per_host": {"gpus": 0}}, ValueError, "at least 1, got 0"),
        ({"per_host": {"gpus": "2"}}, ValueError, "at least 1, got '2'"),
        ({"per_host": {"racks": 1000, "gpus": 1000}}, ValueError, "1000000 processes a host"),
        ({"per_host": {3: 2}}, TypeError, "must be a str, got 3"),
        ({"bootstrap": 5}, TypeError, "bootstrap is a function"),
        ({"name": 5}, TypeError, "name of a proc mesh is a str, got 5"),
        ({"bootstrap_command": "python"}, TypeError, "is a BootstrapCommand"),
        ({"bootstrap_command": lambda _: "python"}, TypeError, "is a BootstrapCommand"),
        ({"env": {"A": 1}}, TypeError, "an environment maps names to text"),
        ({"preload": "numpy"}, TypeError, "preload is a list of modules"),
    ],
)
def test_processes_that_cannot_be_spawned(
    arguments: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        this_host().spawn_procs(**arguments)


@pytest.mark.parametrize("name", ["", "a\nb", "\0", "\udc80", "x" * 256])
def test_names_that_actors_cannot_have(name: str) -> None:
    """E12."""
    with pytest.raises(ValueError, match="needs a name of 1 to 255 printable characters"):
        this_host().spawn_procs().spawn(name, Inspector)


def test_send_to_what_is_no_endpoint() -> None:
    with pytest.raises(TypeError, match="send needs an endpoint of a mesh"):
        send(Inspector.place, (), {})


def test_a_future_as_an_argument_is_told_what_to_do() -> None:
    _, receiver = Channel[int].open()
    port, _ = Channel[object].open()

    with pytest.raises(TypeError, match="a Future stays in its process; await it or get"):
        port.send({"result": receiver.recv()})


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf"), 10**400, "3"])
def test_timeouts_that_are_none(timeout: Any) -> None:
    _, receiver = Channel[int].open()

    with pytest.raises(ValueError, match="invalid timeout"):
        receiver.recv().get(timeout)
