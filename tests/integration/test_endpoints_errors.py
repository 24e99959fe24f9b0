"""What endpoints and constructors raise, as the caller sees it (CASES E2, E6, E7, E8)."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from danaus.actor import ActorError, MeshFailure, SupervisionError, this_host
from tests.integration.error_actors import (
    FailsToStart,
    NeverStarts,
    Outer,
    Raising,
    RaisingSync,
)


def raising(cls: type[Raising] = Raising) -> Raising:
    """An actor that raises, in a process of its own."""
    return this_host().spawn_procs().spawn("raising", cls)


def test_an_error_is_caught_by_its_type_and_shows_where_it_came_from():
    """E2: `except OverflowError` works, and the text has the traceback with its cause."""
    actor = raising()

    with pytest.raises(OverflowError) as raised:
        actor.overflow.call_one().get(10)

    error = raised.value
    assert isinstance(error, ActorError)
    assert isinstance(error.exception, OverflowError)
    text = str(error)
    assert text.startswith("Actor call raising.overflow failed.\n")
    assert "Traceback of where the remote call failed (most recent call last):" in text
    assert 'raise OverflowError("too big") from error' in text
    assert "KeyError: 'missing'" in text
    assert "The above exception was the direct cause" in text
    assert "OverflowError: too big" in text
    assert "_runtime" not in text


def test_an_error_shows_what_was_being_handled():
    """E2: the context, too."""
    with pytest.raises(OverflowError) as raised:
        raising().in_handler.call_one().get(10)

    assert "ZeroDivisionError" in str(raised.value)
    assert "During handling of the above exception" in str(raised.value)


@pytest.mark.parametrize("method", ["overflow", "overflow_async"])
def test_an_error_that_is_let_through_keeps_its_type(method: str):
    """E2: over two hops, with both in the text."""
    outer = this_host().spawn_procs().spawn("outer", Outer, raising())

    with pytest.raises(OverflowError) as raised:
        getattr(outer, method).call_one().get(10)

    assert f"Actor call outer.{method} failed." in str(raised.value)
    assert "Actor call raising.overflow failed." in str(raised.value)


def test_the_error_of_the_lowest_rank_is_raised_when_all_have_answered():
    mesh = this_host().spawn_procs(per_host={"gpus": 3}).spawn("raising", Raising)

    with pytest.raises(OverflowError, match="too big"):
        mesh.overflow.call().get(10)
    replies = [reply.exception(10) for reply in mesh.overflow.stream()]
    assert [type(reply.exception) for reply in replies if isinstance(reply, ActorError)] == [
        OverflowError
    ] * 3


def test_the_traceback_of_a_script_shows_its_file_line_and_source(tmp_path: Path):
    """E2: for classes of ``__main__``, which travel by value."""
    script = tmp_path / "program.py"
    script.write_text(
        textwrap.dedent(
            """
            from danaus.actor import Actor, endpoint, this_host

            class Raising(Actor):
                @endpoint
                def fail(self):
                    raise ValueError("shown")  # line 7

            if __name__ == "__main__":
                try:
                    this_host().spawn_procs().spawn("r", Raising).fail.call_one().get(20)
                except ValueError as error:
                    print(error)
            """
        )
    )

    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=25, check=False
    )

    assert f'File "{script}", line 7, in fail' in done.stdout, done.stderr
    assert 'raise ValueError("shown")  # line 7' in done.stdout


def test_a_constructor_that_raises_shows_its_traceback_in_the_first_call(
    failures: list[MeshFailure],
):
    """E6: with class and name of the actor; spawn itself does not raise."""
    actor = this_host().spawn_procs().spawn("starter", FailsToStart, "no map")

    with pytest.raises(SupervisionError) as raised:
        actor.ping.call_one().get(10)

    text = str(raised.value)
    assert "FailsToStart" in text
    assert "starter" in text
    assert "LookupError: no map" in text
    assert "raise LookupError(why)" in text
    with pytest.raises(SupervisionError, match="no map"):
        actor.ping.call_one().get(10)


@pytest.mark.timeout(60)
def test_a_constructor_that_never_returns_can_be_timed_out_and_stopped():
    """E6: calls time out; stop works."""
    procs = this_host().spawn_procs()
    actor: Any = procs.spawn("never", NeverStarts)

    call = actor.ping.call_one()
    with pytest.raises(TimeoutError):
        call.get(0.2)
    actor.stop().get(20)

    with pytest.raises(SupervisionError, match="stopped"):
        call.get(5)
    procs.stop().get(20)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("NoArguments", "NoArguments: made without arguments"),
        ("KeywordOnly", "KeywordOnly: with code 7"),
        ("FivePositional", "FivePositional: five of them: 12345"),
        ("HoldsLock", "HoldsLock: holds a lock"),
        ("ReadOnlyArguments", "ReadOnlyArguments"),
        ("NoText", "NoText"),
    ],
)
def test_an_exception_with_a_will_of_its_own_arrives_soon(name: str, text: str):
    """E7: type name, text and traceback, in under 2 s, never a hang."""
    actor = raising()
    actor.ping.call_one().get(10)
    start = time.monotonic()

    with pytest.raises(ActorError) as raised:
        actor.odd.call_one(name).get(10)

    assert time.monotonic() - start < 2
    assert text in str(raised.value)
    assert "raise make()" in str(raised.value)
    assert actor.ping.call_one().get(10) == "pong"


SYNC_AND_ASYNC = [(RaisingSync, "any_of"), (Raising, "any_of"), (Raising, "any_of_async")]


@pytest.mark.parametrize("kind", ["SystemExit", "KeyboardInterrupt"])
@pytest.mark.parametrize(("cls", "method"), SYNC_AND_ASYNC)
def test_what_ends_programs_ends_the_actor(
    cls: type[Raising], method: str, kind: str, failures: list[MeshFailure]
):
    """E8: SystemExit and KeyboardInterrupt; the process and its other actors live on."""
    procs = this_host().spawn_procs()
    actor, other = procs.spawn("raising", cls), procs.spawn("other", Raising)

    with pytest.raises(SupervisionError, match=f"(?s)failed with BaseException: {kind}"):
        getattr(actor, method).call_one(kind).get(10)

    with pytest.raises(SupervisionError):
        actor.ping.call_one().get(10)
    assert other.ping.call_one().get(10) == "pong"


def test_what_ends_programs_ends_the_actor_of_a_concurrent_endpoint(failures: list[MeshFailure]):
    """E8: the caller gets the exception, then the actor is gone."""
    actor = raising()

    with pytest.raises(ActorError, match=r"(?s)failed with BaseException\..*SystemExit: 3"):
        actor.any_of_concurrent.call_one("SystemExit").get(10)

    with pytest.raises(SupervisionError):
        actor.ping.call_one().get(10)


@pytest.mark.parametrize(("cls", "method"), [*SYNC_AND_ASYNC, (Raising, "any_of_concurrent")])
def test_a_cancellation_ends_the_call_and_not_the_actor(cls: type[Raising], method: str):
    """E8: asyncio.CancelledError is the caller's ActorError; nothing of the caller is cancelled."""
    actor = raising(cls)

    with pytest.raises(ActorError, match="CancelledError") as raised:
        getattr(actor, method).call_one("CancelledError").get(10)

    assert isinstance(raised.value, Exception)
    assert type(raised.value.exception).__name__ == "CancelledError"
    assert actor.ping.call_one().get(10) == "pong"


async def test_a_cancellation_does_not_cancel_the_task_that_awaits_it():
    """E8: the same when awaited."""
    actor = raising()

    with pytest.raises(ActorError, match="CancelledError"):
        await actor.any_of_async.call_one("CancelledError")
    with pytest.raises(ActorError, match="CancelledError"):
        await actor.cancel_itself.call_one()
    assert await actor.ping.call_one() == "pong"


@pytest.mark.parametrize(("cls", "method"), [(RaisingSync, "any_of"), (Raising, "any_of")])
def test_a_stop_iteration_ends_no_loop_of_the_caller(cls: type[Raising], method: str):
    """E8: it is an ActorError, and the original is in ``exception``."""
    actor = raising(cls)

    with pytest.raises(ActorError) as raised:
        [future.get(10) for future in map(getattr(actor, method).call_one, ["StopIteration"])]

    assert not isinstance(raised.value, StopIteration)
    assert isinstance(raised.value.exception, StopIteration)
    assert raised.value.exception.value == 5


async def test_a_stop_iteration_can_be_awaited():
    """E8: in coroutines Python turns it into a RuntimeError, there and here."""
    actor = raising()

    with pytest.raises(ActorError, match="StopIteration"):
        await actor.any_of.call_one("StopIteration")
    with pytest.raises(RuntimeError, match="coroutine raised StopIteration"):
        await actor.any_of_async.call_one("StopIteration")


@pytest.mark.parametrize(("cls", "method"), [*SYNC_AND_ASYNC, (Raising, "any_of_concurrent")])
def test_an_exception_group_can_be_taken_apart(cls: type[Raising], method: str):
    """E8: `except*` at the caller."""
    actor = raising(cls)
    caught: list[str] = []

    try:
        getattr(actor, method).call_one("ExceptionGroup").get(10)
    except* ValueError as group:
        caught += [str(error) for error in group.exceptions]
    except* OSError as group:
        caught += [str(error) for error in group.exceptions]

    assert caught == ["one", "two"]
    assert actor.ping.call_one().get(10) == "pong"
