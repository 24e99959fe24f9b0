"""Casts to many hosts go down a tree of agents, and the replies come up it."""

import operator
from collections.abc import Generator

import numpy as np
import pytest

from danaus.actor import (
    Accumulator,
    Actor,
    ActorError,
    Channel,
    HostMesh,
    context,
    endpoint,
    send,
)
from danaus.config import configured
from danaus.job import ProcessJob
from tests.integration.tree_actors import Diary

PATIENCE = 20.0
HOSTS, PROCS = 7, 2
EVERYBODY = HOSTS * PROCS


@pytest.fixture
def hosts() -> Generator[HostMesh]:
    job = ProcessJob({"hosts": HOSTS})
    yield job.state(cached_path=None).hosts
    job.kill()


@pytest.fixture
def narrow() -> Generator[None]:
    """A tree of three levels for seven hosts."""
    with configured(max_cast_fanout=2):
        yield


@pytest.fixture
def diaries(hosts: HostMesh, narrow: None) -> Generator[Diary]:
    procs = hosts.spawn_procs(per_host={"procs": PROCS})
    yield procs.spawn("diaries", Diary)
    procs.stop().get(PATIENCE)


def test_a_call_reaches_every_rank_once_and_brings_its_reply(diaries: Diary):
    replies = diaries.note.call("x").get(PATIENCE)

    assert list(replies.values()) == list(range(EVERYBODY))
    assert list(diaries.read.call().get(PATIENCE).values()) == [["x"]] * EVERYBODY


def test_a_cast_costs_its_sender_the_fan_out_and_not_the_hosts(hosts: HostMesh):
    procs = hosts.spawn_procs(per_host={"procs": PROCS})
    diaries = procs.spawn("diaries", Diary)
    sent: dict[int, int] = {}
    for fanout in (2, HOSTS):
        with configured(max_cast_fanout=fanout, direct_links_max=1):
            diaries.nothing.call().get(PATIENCE)
            before = context().actor_instance.runtime.statistics()["frames_sent"]
            for _ in range(10):
                diaries.nothing.broadcast()
            sent[fanout] = context().actor_instance.runtime.statistics()["frames_sent"] - before
    procs.stop().get(PATIENCE)

    assert sent[HOSTS] >= 10 * HOSTS
    assert 20 <= sent[2] <= 30  # two a cast, and some acknowledgements of what was before


def test_casts_slices_and_single_calls_keep_their_order_at_each_rank(diaries: Diary):
    first, but_last = diaries.slice(hosts=0), diaries.slice(hosts=slice(0, HOSTS - 1))
    one = diaries.slice(hosts=0, procs=0)
    for i in range(30):
        diaries.note.broadcast(("all", i))
        first.note.broadcast(("first", i))
        but_last.note.broadcast(("but last", i))
        one.note.broadcast(("one", i))
    notes = list(diaries.read.call().get(PATIENCE).values())

    def told(*kinds: str) -> list[object]:
        return [(kind, i) for i in range(30) for kind in kinds]

    assert notes[0] == told("all", "first", "but last", "one")
    assert notes[1] == told("all", "first", "but last")
    assert notes[2] == notes[-3] == told("all", "but last")
    assert notes[-1] == notes[-2] == told("all")


@pytest.mark.parametrize(
    ("dim", "chosen"), [("hosts", slice(1, 7, 2)), ("hosts", slice(2, 6)), ("procs", 1)]
)
def test_a_slice_of_any_shape_is_called_and_nobody_else(
    diaries: Diary, dim: str, chosen: slice | int
):
    part = diaries.slice(**{dim: chosen})

    replies = part.note.call("x").get(PATIENCE)
    notes = diaries.read.call().get(PATIENCE)

    called = {rank for rank, note in enumerate(notes.values()) if note == ["x"]}
    grid = np.arange(EVERYBODY).reshape(HOSTS, PROCS)
    assert called == set((grid[chosen] if dim == "hosts" else grid[:, chosen]).flatten().tolist())
    assert list(replies.values()) == list(range(len(called)))  # ranks of the slice


@pytest.mark.parametrize("size", [0, 5000, 300_000, 3_000_000])
def test_arguments_and_replies_of_any_size_go_down_and_up(diaries: Diary, size: int):
    replies = diaries.give.call(size).get(PATIENCE)
    echoed = diaries.echo.call(np.arange(size)).get(PATIENCE)

    assert list(replies.values()) == [bytes([rank]) * size for rank in range(EVERYBODY)]
    assert all(np.array_equal(value, np.arange(size)) for value in echoed.values())


def test_an_exception_of_one_rank_is_raised_when_all_have_answered(diaries: Diary):
    with pytest.raises(ActorError, match="rank 9 fails"):
        diaries.fail.call(9).get(PATIENCE)

    assert len(diaries.note.call("on").get(PATIENCE)) == EVERYBODY


def test_a_stream_gives_what_is_there_before_the_slowest(diaries: Diary):
    stream = diaries.wait.stream(0.5, 3)

    ranks = [future.get(PATIENCE) for future in stream]

    assert sorted(ranks) == list(range(EVERYBODY))
    assert ranks[-1] == 3


def test_an_accumulator_folds_what_comes_up(diaries: Diary):
    total = Accumulator[int, int](diaries.note, 0, operator.add).accumulate("x").get(PATIENCE)

    assert total == sum(range(EVERYBODY))


def test_replies_are_combined_on_the_hosts_and_few_come_to_the_caller(diaries: Diary):
    sums = Accumulator[np.ndarray, np.ndarray](
        diaries.array, np.zeros(100_000), np.add, reduce=np.add
    )
    sums.accumulate(100_000).get(PATIENCE)
    before = context().actor_instance.runtime.statistics()["bytes_received"]

    total = sums.accumulate(100_000).get(PATIENCE)

    assert np.array_equal(total, np.full(100_000, sum(range(EVERYBODY))))
    received = context().actor_instance.runtime.statistics()["bytes_received"] - before
    assert received < 4 * 800_000  # of 14 arrays of 800,000 bytes


def test_what_combining_raises_is_raised_by_the_caller(diaries: Diary):
    def refuse(_one: int, _other: int) -> int:
        raise ArithmeticError("cannot be combined")

    total = Accumulator[int, int](diaries.note, 0, operator.add, reduce=refuse).accumulate("x")

    with pytest.raises(ActorError, match="cannot be combined"):
        total.get(PATIENCE)


def test_an_exception_is_raised_whatever_is_combined(diaries: Diary):
    total = Accumulator[int, int](diaries.fail, 0, operator.add, reduce=operator.add).accumulate(9)

    with pytest.raises(ActorError, match="rank 9 fails"):
        total.get(PATIENCE)


def test_ports_that_travel_down_are_written_to_from_everywhere(diaries: Diary):
    port, receiver = Channel[int].open()

    diaries.write.broadcast(port)

    assert sorted(receiver.recv().get(PATIENCE) for _ in range(EVERYBODY)) == list(range(EVERYBODY))


def test_replies_to_a_port_of_the_senders_choice_come_up(diaries: Diary):
    port, receiver = Channel[int].open_ranked()

    send(diaries.note, ("x",), {}, port=port)

    replies = [receiver.recv().get(PATIENCE) for _ in range(EVERYBODY)]
    assert sorted(replies) == [(rank, rank) for rank in range(EVERYBODY)]


def test_an_actor_casts_down_a_tree_of_its_own(diaries: Diary):
    one = diaries.slice(hosts=3, procs=1)

    # The caller is among the called, and must not be waited for by itself.
    others = diaries.slice(hosts=slice(0, 3))
    assert one.tell.call_one(others, "from 7").get(PATIENCE) == list(range(6))


class Root(Actor):
    """Casts, and goes."""

    def __init__(self, diaries: Diary) -> None:
        self.diaries = diaries

    @endpoint
    def begin(self) -> None:
        self.diaries.wait.broadcast(0.0, -1)
        self.pending = self.diaries.wait.call(0.5, 0)


def test_hosts_go_on_when_the_sender_of_a_cast_goes(hosts: HostMesh, diaries: Diary):
    procs = hosts.slice(hosts=0).spawn_procs()
    root = procs.spawn("root", Root, diaries)
    root.begin.call_one().get(PATIENCE)

    procs.stop().get(PATIENCE)

    assert list(diaries.note.call("x").get(PATIENCE).values()) == list(range(EVERYBODY))
