"""Ports, channels, explicit response ports, `send`, and messages that do not arrive."""

from __future__ import annotations

import gc
import os
from typing import Any

import pytest

from danaus.actor import (
    ActorError,
    Channel,
    MeshFailure,
    Port,
    SupervisionError,
    as_endpoint,
    send,
    this_host,
)
from danaus.testing import wait_until
from tests.integration.endpoint_actors import Answering, Counter
from tests.integration.port_actors import Forgiving, OpensPort, Sending, SlowlyForgiving


def answering(size: int = 1) -> Answering:
    """Actors that answer by ports."""
    mesh = this_host().spawn_procs(per_host={"gpus": size}).spawn("a", Answering)
    return mesh.slice(gpus=0) if size == 1 else mesh


# channels


def test_what_one_sender_sends_arrives_in_order():
    port, receiver = Channel[int].open()

    answering().send_many.broadcast(port, 100)

    assert [receiver.recv().get(10) for _ in range(100)] == [*range(100)]


async def test_several_senders_may_share_a_port():
    port, receiver = Channel[int].open()

    answering(3).send_many.broadcast(port, 5)

    assert sorted([await receiver.recv() for _ in range(15)]) == sorted([*range(5)] * 3)


def test_a_ranked_receiver_tells_who_sent():
    port, receiver = Channel[int].open_ranked()
    plain, end = Channel[int].open()

    answering(3).send_rank.broadcast(port)
    answering(2).send_rank.broadcast(plain)

    assert sorted(receiver.recv().get(10) for _ in range(3)) == [(0, 0), (1, 1), (2, 2)]
    assert sorted(end.ranked().recv().get(10) for _ in range(2)) == [(0, 0), (1, 1)]


def test_a_port_for_one_message_takes_one():
    port, receiver = Channel[int].open(once=True)
    port.send(1)

    with pytest.raises(EOFError, match="Port closed"):
        port.send(2)
    assert receiver.recv().get(10) == 1
    with pytest.raises(EOFError, match="Port closed"):
        receiver.recv().get(10)


def test_an_exception_that_was_sent_is_raised():
    port, receiver = Channel[int].open()
    port.exception(LookupError("sent"))

    with pytest.raises(LookupError, match="sent"):
        receiver.recv().get(10)


def test_a_receiver_stays_where_it_is():
    _, receiver = Channel[int].open()

    with pytest.raises(TypeError, match="send its Port instead"):
        answering().send_rank.call_one(receiver)


def test_a_port_travels_through_processes_and_back():
    opener = this_host().spawn_procs().spawn("opener", OpensPort)

    port = opener.open.call_one().get(10)
    port.send(1)
    answering().send_many.call_one(port, 2).get(10)

    assert [opener.receive.call_one().get(10) for _ in range(3)] == [1, 0, 1]


def test_a_channel_that_nobody_reads_any_more_holds_nothing():
    from danaus._runtime.process import runtime

    port, receiver = Channel[int].open()
    waiting = receiver.recv()
    before = len(runtime().ports)

    del receiver
    gc.collect()
    assert len(runtime().ports) == before  # somebody waits for one more
    port.send(1)

    assert waiting.get(10) == 1
    assert len(runtime().ports) == before - 1


# explicit response ports


def test_an_endpoint_may_answer_by_a_port():
    assert answering().double.call_one(4).get(10) == 8
    assert list(answering(2).double.call(4).get(10).values()) == [8, 8]


def test_it_may_answer_later():
    actor = answering()
    held = [actor.hold.call_one() for _ in range(3)]

    assert actor.release.call_one(7).get(10) == 3
    assert [future.get(10) for future in held] == [7, 7, 7]


def test_it_may_answer_by_an_exception():
    actor = answering()

    with pytest.raises(ValueError, match="not today") as raised:
        actor.refuse.call_one("not today").get(10)
    assert isinstance(raised.value, ActorError)
    assert actor.double.call_one(1).get(10) == 2


def test_it_dies_when_it_raises_instead(failures: list[MeshFailure]):
    actor = answering()

    with pytest.raises(SupervisionError, match="before it answered"):
        actor.fall.call_one().get(10)
    with pytest.raises(SupervisionError):
        actor.double.call_one(1).get(10)


def test_a_plain_method_may_be_called_with_a_port():
    plain: Any = answering().plain_with_port

    assert as_endpoint(plain, explicit_response_port=True).call_one(4).get(10) == 5


# send


def test_send_collects_the_replies_at_a_port():
    port, receiver = Channel[int].open_ranked()
    counters: Any = this_host().spawn_procs(per_host={"gpus": 3}).spawn("c", Counter)

    send(counters.add, (5,), {}, port)

    assert sorted(receiver.recv().get(10) for _ in range(3)) == [(0, 5), (1, 5), (2, 5)]


def test_send_may_choose_one_and_may_want_no_answer():
    port, receiver = Channel[int].open()
    counters: Any = this_host().spawn_procs(per_host={"gpus": 3}).spawn("c", Counter)

    send(counters.add, (1,), {})
    send(counters.add, (), {"n": 10}, port, "choose")

    assert receiver.recv().get(10) == 11
    assert sum(counters.add.call(0).get(10).values()) == 13


def test_send_to_a_port_of_another_process():
    opener = this_host().spawn_procs().spawn("opener", OpensPort)
    port: Port[int] = opener.open.call_one().get(10)
    counters: Any = this_host().spawn_procs().spawn("c", Counter)

    send(counters.add, (5,), {}, port)

    assert opener.receive.call_one().get(10) == 5


def test_the_port_of_a_send_hears_of_a_death(failures: list[MeshFailure]):
    port, receiver = Channel[int].open()
    counters: Any = this_host().spawn_procs().spawn("c", Counter)

    send(counters.run, (os._exit, 3), {}, port)

    with pytest.raises(SupervisionError, match="exit"):
        receiver.recv().get(10)


def test_send_refuses_an_unknown_selection():
    counters: Any = this_host().spawn_procs().spawn("c", Counter)

    with pytest.raises(ValueError, match="Invalid selection: some"):
        send(counters.add, (), {}, selection="some")


# messages that do not arrive


def dead_port(failures: list[MeshFailure]) -> Port[int]:
    """A port whose process has died."""
    procs = this_host().spawn_procs()
    port: Port[int] = procs.spawn("opener", OpensPort).open.call_one().get(10)
    with pytest.raises(SupervisionError):
        procs.spawn("c", Counter).run.call_one(os._exit, 3).get(10)
    return port


def test_the_sender_is_asked_about_a_message_to_a_dead_process(failures: list[MeshFailure]):
    actor = this_host().spawn_procs().spawn("sender", Forgiving)
    port = dead_port(failures)

    actor.send.call_one(port, 1).get(10)

    wait_until(lambda: actor.noted.call_one().get(10)[1])
    me, seen = actor.noted.call_one().get(10)
    assert [(sender, on_its_thread) for sender, _, _, on_its_thread in seen] == [(me, True)]
    assert seen[0][1].startswith("port ")
    assert "the process is gone" in seen[0][2]


def test_a_sender_that_does_not_forgive_fails(failures: list[MeshFailure]):
    actor = this_host().spawn_procs().spawn("sender", Sending)
    port = dead_port(failures)

    actor.send.broadcast(port, 1)

    wait_until(lambda: any("could not be delivered" in f.reason for f in failures))
    with pytest.raises(SupervisionError, match="could not be delivered"):
        actor.ping.call_one().get(10)


def test_a_port_can_be_told_not_to_ask(failures: list[MeshFailure]):
    actor = this_host().spawn_procs().spawn("sender", Sending)

    actor.send_silently.call_one(dead_port(failures), 1).get(10)

    assert actor.ping.call_one().get(10) == "pong"


def test_a_hook_that_awaits_does_not_hold_the_actor_up(failures: list[MeshFailure]):
    actor = this_host().spawn_procs().spawn("sender", SlowlyForgiving)
    actor.send.call_one(dead_port(failures), 1).get(10)

    assert actor.until_asked.call_one().get(10) == 0
    actor.release.call_one().get(10)
    assert actor.until_seen.call_one().get(10) == 1


def test_a_message_of_the_client_that_does_not_arrive_is_a_failure_of_the_client(
    failures: list[MeshFailure],
):
    port = dead_port(failures)

    port.send(1)

    wait_until(lambda: any("a message of the client" in f.reason for f in failures))
