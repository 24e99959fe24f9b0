import logging
from typing import Any

import pytest

from danaus._mesh.actor import Actor, concurrent_endpoint, endpoint
from danaus._runtime.endpoints import EndpointProperty


class Counter(Actor):
    def __init__(self) -> None:
        self.value = 0

    @endpoint
    def add(self, n: int) -> int:
        self.value += n
        return self.value

    @endpoint(explicit_response_port=True, instrument=False)
    def answer(self, port: Any) -> None: ...

    @concurrent_endpoint
    async def wait(self) -> None: ...

    @concurrent_endpoint(explicit_response_port=True)
    async def wait_and_answer(self, port: Any) -> None: ...


def spec(name: str) -> EndpointProperty:
    found = vars(Counter)[name]
    assert isinstance(found, EndpointProperty)
    return found


def test_endpoints_are_marked_with_or_without_options():
    kinds = {
        name: (spec(name).explicit_response_port, spec(name).concurrent, spec(name).is_async)
        for name in ("add", "answer", "wait", "wait_and_answer")
    }

    assert kinds == {
        "add": (False, False, False),
        "answer": (True, False, False),
        "wait": (False, True, True),
        "wait_and_answer": (True, True, True),
    }


def test_an_endpoint_of_an_instance_is_its_plain_method():
    assert Counter().add(3) == 3


@pytest.mark.parametrize("thing", [3, "name", property(len), object()])
def test_what_is_no_function_cannot_be_an_endpoint(thing: Any):
    with pytest.raises(TypeError, match="@endpoint marks a method; got "):
        endpoint(thing)
    with pytest.raises(TypeError, match="@concurrent_endpoint marks a method; got "):
        concurrent_endpoint(thing)


def test_a_sync_method_cannot_be_concurrent():
    with pytest.raises(ValueError, match="can only wrap async endpoints"):

        @concurrent_endpoint
        def method(self: Any) -> None: ...


def test_the_two_marks_do_not_stack():
    with pytest.raises(ValueError, match="concurrent_endpoint does not wrap @endpoint"):

        @concurrent_endpoint
        @endpoint
        async def method(self: Any) -> None: ...


@pytest.mark.parametrize(
    "use",
    [
        lambda actor: actor.slice(gpus=0),
        lambda actor: actor.initialized,
        lambda actor: actor.stop(),
        lambda actor: actor.split(gpus=("a", "b")),
        lambda actor: actor.size(),
        lambda actor: actor.extent,
        len,
    ],
    ids=["slice", "initialized", "stop", "split", "size", "extent", "len"],
)
def test_an_actor_is_no_mesh(use: Any):
    with pytest.raises(NotImplementedError, match="actor implementations are not meshes"):
        use(Counter())


def test_an_actor_is_true_like_any_object():
    assert Counter()


def test_an_actor_has_a_logger_of_its_class():
    actor = Counter()

    assert actor.logger is actor.logger
    assert actor.logger.name == "Counter"
    assert actor.logger.level == logging.DEBUG


def test_an_actor_handles_no_failure_and_no_lost_message_by_itself():
    actor: Any = Counter()

    assert actor.__supervise__(None) is False
    assert actor._handle_undeliverable_message(None) is False
