import threading
from collections.abc import Callable
from typing import Any

import pytest

from danaus._runtime.collect import ManyReplies, OneReply, PortQueue, StreamReplies, Take
from danaus._runtime.outcome import FAILED, RAISED, VALUE, close_error, close_failure
from danaus._runtime.outgoing import OutgoingCall
from danaus._wire.codec import Parts, dumps
from danaus.errors import ActorError, MeshFailure, SupervisionError
from tests.unit._runtime.threads import PATIENCE, Threads

DEATH = MeshFailure("trainer", [1], "it was killed", actor_class="Trainer")


def call() -> OutgoingCall:
    return OutgoingCall("uid", "trainer", "Trainer", "step")


def value(result: object) -> Take:
    return lambda: dumps(result)


def raised(error: BaseException) -> Take:
    return lambda: close_error(error, "Actor call trainer.step failed.")


def failure() -> Take:
    return lambda: close_failure(DEATH)


def many(count: int, assemble: Callable[[list[Any]], Any] = list) -> ManyReplies:
    return ManyReplies(None, [(f"proc-{i}", i) for i in range(count)], call(), assemble)


def stream(count: int) -> StreamReplies:
    return StreamReplies(None, [(f"proc-{i}", i) for i in range(count)], call())


class Taken:
    """A reply's parts, and how often and by which threads they were taken."""

    def __init__(self, result: object) -> None:
        self._parts = dumps(result)
        self.threads: list[int] = []

    def __call__(self) -> Parts:
        self.threads.append(threading.get_ident())
        return self._parts


def test_one_reply_settles_the_call():
    collector = OneReply(None, ("proc", 0), call())

    assert collector.on_reply(0, VALUE, value(42))

    assert collector.future.get() == 42


def test_an_exception_is_raised_as_what_it_was():
    collector = OneReply(None, ("proc", 0), call())

    assert collector.on_reply(0, RAISED, raised(OverflowError("too large")))

    with pytest.raises(OverflowError, match="too large") as caught:
        collector.future.get()
    assert isinstance(caught.value, ActorError)


def test_a_death_that_is_told_as_the_answer_fails_the_call():
    collector = OneReply(None, ("proc", 0), call())

    assert collector.on_reply(0, FAILED, failure())

    with pytest.raises(SupervisionError, match=r"(?s)trainer\.step\(\) failed.*it was killed"):
        collector.future.get()


def test_a_death_of_who_should_answer_fails_the_call():
    collector = OneReply(None, ("proc", 0), call())

    assert collector.on_failure(0, DEATH)

    with pytest.raises(SupervisionError, match="it was killed") as caught:
        collector.future.get()
    assert caught.value.failure is DEATH
    assert caught.value.endpoint == "trainer.step"


def test_a_reply_is_opened_by_who_observes_it_once():
    taken = Taken(42)
    collector = OneReply(None, ("proc", 0), call())
    collector.on_reply(0, VALUE, taken)
    assert taken.threads == []
    threads = Threads()

    threads.start(collector.future.get)
    assert threads.join() == [42]

    assert len(taken.threads) == 1
    assert taken.threads[0] != threading.get_ident()


def test_many_replies_are_complete_when_all_are_in_and_come_by_rank():
    collector = many(3)

    done = [collector.on_reply(rank, VALUE, value(rank * 10)) for rank in (2, 0, 1)]

    assert done == [False, False, True]
    assert collector.future.get() == [0, 10, 20]


def test_many_replies_of_nobody_are_complete_at_once():
    assert many(0).future.get() == []


def test_many_replies_are_assembled_by_who_observes():
    collector = many(1, assemble=lambda values: {"values": values})
    collector.on_reply(0, VALUE, value("a"))

    assert collector.future.get() == {"values": ["a"]}


def test_the_exception_of_the_lowest_rank_is_raised_once_all_have_answered():
    collector = many(3)

    collector.on_reply(2, RAISED, raised(KeyError("of rank 2")))
    collector.on_reply(1, RAISED, raised(ValueError("of rank 1")))
    assert not collector.future.done
    collector.on_reply(0, VALUE, value(0))

    with pytest.raises(ValueError, match="of rank 1"):
        collector.future.get()


def test_a_death_does_not_wait_for_the_other_replies():
    collector = many(3)
    collector.on_reply(0, RAISED, raised(ValueError("of rank 0")))

    assert collector.on_failure(1, DEATH)

    with pytest.raises(SupervisionError):
        collector.future.get()


def test_a_death_that_is_told_as_an_answer_does_not_wait_either():
    collector = many(3)

    assert collector.on_reply(1, FAILED, failure())

    with pytest.raises(SupervisionError):
        collector.future.get()


def test_the_death_of_a_rank_that_has_answered_is_no_news():
    collector = many(2)
    collector.on_reply(1, VALUE, value(1))

    assert not collector.on_failure(1, DEATH)
    assert collector.on_reply(0, VALUE, value(0))

    assert collector.future.get() == [0, 1]


def test_what_comes_after_the_end_changes_nothing():
    complete, failed = many(1), many(2)
    complete.on_reply(0, VALUE, value(1))
    failed.on_failure(0, DEATH)
    assert complete.future.get() == [1]

    assert complete.on_reply(0, VALUE, value(2))
    assert complete.on_failure(0, DEATH)
    assert failed.on_reply(1, VALUE, value(2))

    assert complete.future.get() == [1]
    assert isinstance(failed.future.exception(), SupervisionError)


def test_a_reply_that_comes_twice_counts_once():
    collector = many(2)

    assert not collector.on_reply(0, VALUE, value("first"))
    assert not collector.on_reply(0, VALUE, value("second"))
    assert collector.on_reply(1, VALUE, value(1))

    assert collector.future.get() == ["first", 1]


def test_a_reply_that_cannot_be_opened_fails_the_call_and_stays_the_result():
    collector = many(1)
    collector.on_reply(0, VALUE, lambda: [b"no pickle"])

    first, second = collector.future.exception(), collector.future.exception()

    assert first is second
    assert type(first).__name__ == "UnpicklingError"


def test_no_reply_is_lost_that_comes_while_others_do():
    count = 40
    collector = many(count)
    barrier = threading.Barrier(4)
    ends: list[bool] = []

    def work(first: int) -> None:
        barrier.wait(PATIENCE)
        ends.extend(collector.on_reply(i, VALUE, value(i)) for i in range(first, count, 4))

    threads = Threads()
    for first in range(4):
        threads.start(lambda first=first: work(first))
    threads.join()

    assert collector.future.get(timeout=0) == list(range(count))
    assert ends.count(True) == 1


def test_a_stream_gives_replies_in_the_order_of_their_arrival():
    collector = stream(3)

    done = [collector.on_reply(rank, VALUE, value(rank)) for rank in (2, 0, 1)]

    assert done == [False, False, True]
    assert [future.get() for future in collector.futures] == [2, 0, 1]


def test_each_future_of_a_stream_has_its_own_outcome():
    collector = stream(3)

    collector.on_failure(1, DEATH)
    collector.on_reply(0, RAISED, raised(ValueError("wrong")))
    assert collector.on_reply(2, VALUE, value(2))

    first, second, third = collector.futures
    assert isinstance(first.exception(), SupervisionError)
    assert isinstance(second.exception(), ValueError)
    assert third.get() == 2


def test_a_rank_of_a_stream_answers_or_dies_once():
    collector = stream(2)

    collector.on_reply(0, VALUE, value("first"))
    collector.on_reply(0, VALUE, value("second"))
    collector.on_failure(0, DEATH)

    assert [future.done for future in collector.futures] == [True, False]
    assert collector.futures[0].get() == "first"


def queue(*, once: bool = False) -> PortQueue:
    return PortQueue(None, once=once)


def test_messages_of_a_port_come_in_order_whether_waited_for_or_not():
    port = queue()
    early = port.receive(ranked=False)

    for number in range(3):
        assert not port.on_reply(0, VALUE, value(number))

    assert [early.get(), *(port.receive(ranked=False).get() for _ in range(2))] == [0, 1, 2]


def test_those_who_wait_at_a_port_are_served_in_order():
    port = queue()
    waiting = [port.receive(ranked=False) for _ in range(3)]

    for number in range(3):
        port.on_reply(0, VALUE, value(number))

    assert [future.get() for future in waiting] == [0, 1, 2]


def test_a_ranked_receiver_is_told_who_sent():
    port = queue()
    early = port.receive(ranked=True)
    port.on_reply(5, VALUE, value("a"))
    port.on_reply(6, VALUE, value("b"))

    assert early.get() == (5, "a")
    assert port.receive(ranked=True).get() == (6, "b")


def test_an_exception_that_was_sent_is_raised_by_its_receiver():
    port = queue()
    port.on_reply(0, RAISED, raised(ValueError("wrong")))
    port.on_reply(0, VALUE, value(1))

    with pytest.raises(ValueError, match="wrong"):
        port.receive(ranked=False).get()
    assert port.receive(ranked=False).get() == 1


def test_a_port_does_not_end_with_one_of_its_writers():
    port = queue()

    assert not port.on_failure(0, DEATH)
    port.on_reply(1, VALUE, value(1))

    assert port.receive(ranked=False).get() == 1


def test_a_port_that_was_closed_takes_no_more_and_gives_what_it_has():
    port = queue()
    port.on_reply(0, VALUE, value("before"))

    port.close("its receiver was closed")

    assert port.on_reply(0, VALUE, value("after"))
    assert port.receive(ranked=False).get() == "before"
    with pytest.raises(EOFError, match="Port closed: its receiver was closed"):
        port.receive(ranked=False).get()


def test_those_who_wait_are_told_when_a_port_is_closed():
    port = queue()
    waiting = [port.receive(ranked=ranked) for ranked in (False, True)]

    port.close("the context was shut down")

    for future in waiting:
        with pytest.raises(EOFError, match="Port closed: the context was shut down"):
            future.get(timeout=0)


def test_whoever_keeps_the_port_is_told_when_it_is_closed():
    port = queue()
    closed: list[bool] = []
    port.on_close = lambda: closed.append(True)

    port.close("its receiver was closed")

    assert closed == [True]


@pytest.mark.parametrize("early", [False, True])
def test_a_port_for_one_message_takes_one(early: bool):
    port = queue(once=True)
    waiting = [port.receive(ranked=False) for _ in range(2)] if early else []

    assert port.on_reply(0, VALUE, value("only"))
    assert port.on_reply(0, VALUE, value("too late"))

    first, second = waiting or [port.receive(ranked=False) for _ in range(2)]
    assert first.get() == "only"
    with pytest.raises(EOFError, match="Port closed: it was for one message, which has come"):
        second.get(timeout=0)


def test_no_message_of_a_port_is_lost_or_doubled_between_threads():
    port = queue()
    count = 200
    threads = Threads()
    barrier = threading.Barrier(4)

    def send(first: int) -> None:
        barrier.wait(PATIENCE)
        for number in range(first, count, 2):
            port.on_reply(0, VALUE, value(number))

    def receive() -> list[int]:
        barrier.wait(PATIENCE)
        return [port.receive(ranked=False).get(PATIENCE) for _ in range(count // 2)]

    threads.start(receive)
    threads.start(receive)
    threads.start(lambda: send(0))
    threads.start(lambda: send(1))
    results = [number for result in threads.join() if result for number in result]

    assert sorted(results) == list(range(count))
