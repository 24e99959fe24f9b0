from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from danaus._config.overrides import configured
from danaus._net.shared import SharedPayload
from danaus._runtime.call import Taker
from danaus._runtime.outbox import Outbox
from danaus._runtime.outgoing import OutgoingCall
from danaus._wire import kinds
from danaus._wire.codec import dumps, dumps_call, loads
from danaus._wire.tree_frames import CastHead

Sent = tuple[int, list[Any], bytes | None]


class Link:
    """Keeps what is sent by it."""

    def __init__(self) -> None:
        self.lost = False
        self.is_local = True
        self.sent: list[Sent] = []
        self.error: Exception | None = None

    def send_small(self, kind: int, routing: bytes, body: bytes) -> bool:
        if self.error is not None and msgspec.msgpack.decode(routing)[5] != "":
            raise self.error
        self.sent.append((kind, msgspec.msgpack.decode(routing), bytes(body)))
        return not self.lost

    def send(self, kind: int, routing: bytes, payload: SharedPayload) -> bool:
        self.sent.append((kind, msgspec.msgpack.decode(routing), None))
        return not self.lost

    @property
    def numbers(self) -> list[int]:
        return [routing[4] for _, routing, _ in self.sent]


class Routes:
    """Links by process; what is not there can be dialled, unless it is dead."""

    def __init__(self) -> None:
        self.links: dict[str, Link] = {}
        self.agents: dict[str, Link] = {}
        self.dead: dict[str, Any] = {}

    def to(self, proc: str, _address: str) -> Link | None:
        return None if proc in self.dead else self.links.setdefault(proc, Link())

    def agent(self, address: str) -> Link | None:
        return self.agents.setdefault(address, Link())


class Bulk:
    def __init__(self) -> None:
        self.taken: list[tuple[str, int]] = []

    def take(self, proc: str, nbytes: int) -> None:
        self.taken.append((proc, nbytes))


class Runtime:
    """What an outbox needs of a process."""

    id = "me"

    def __init__(self) -> None:
        self.routes = Routes()
        self.bulk = Bulk()
        self.delivered: list[tuple[int, list[Any], Any]] = []
        self.failed: list[str] = []

    def deliver(self, kind: int, routing: list[Any], take: Taker, _link: None) -> None:
        self.delivered.append((kind, routing, take()))

    def fail_targets(self, proc: str, _failure: Callable[..., Any]) -> None:
        self.failed.append(proc)


class Instance:
    def __init__(self, uid: str) -> None:
        self.uid = uid


class Context:
    def __init__(self, uid: str = "root") -> None:
        self.actor_instance = Instance(uid)


@pytest.fixture
def runtime() -> Runtime:
    return Runtime()


@pytest.fixture
def outbox(runtime: Runtime) -> Outbox:
    any_runtime: Any = runtime
    return Outbox(any_runtime)


def targets(*procs: str) -> list[tuple[str, str, int]]:
    return [(proc, "agent", rank) for rank, proc in enumerate(procs)]


def cast(
    outbox: Outbox,
    to: Sequence[tuple[str, str, int]],
    *,
    source: str = "root",
    actor: str = "actor",
    port: int = -1,
    args: tuple[Any, ...] = (),
) -> None:
    context: Any = Context(source)
    call = OutgoingCall(actor, "mesh", "Class", "step")
    call.port = port
    call.where = tuple(to) if len(to) > 1 else None
    outbox.cast(context, call, to, b"extent", dumps_call(args, {}))


def test_a_call_goes_to_each_target_with_its_rank(outbox: Outbox, runtime: Runtime):
    cast(outbox, targets("a", "b"), port=7, args=(1, 2))

    for rank, proc in enumerate("ab"):
        ((kind, routing, body),) = runtime.routes.links[proc].sent
        assert kind == kinds.CALL
        assert routing == [proc, "actor", "me", "root", 0, "step", 7, rank, b"extent"]
        assert loads([body or b""]) == ((1, 2), {})
    assert outbox.messages == 2


def test_messages_between_two_actors_are_numbered_from_zero(outbox: Outbox, runtime: Runtime):
    for _ in range(3):
        cast(outbox, targets("a"))

    assert runtime.routes.links["a"].numbers == [0, 1, 2]


def test_other_senders_receivers_and_processes_have_numbers_of_their_own(
    outbox: Outbox, runtime: Runtime
):
    cast(outbox, targets("a"))
    cast(outbox, targets("a"), source="another actor")
    cast(outbox, targets("a"), actor="another mesh")
    cast(outbox, targets("b"))
    cast(outbox, targets("a"))

    assert runtime.routes.links["a"].numbers == [0, 0, 0, 1]
    assert runtime.routes.links["b"].numbers == [0]


def test_spawns_calls_and_stops_of_an_actor_share_their_numbers(outbox: Outbox, runtime: Runtime):
    context: Any = Context()

    outbox.send_to_actor(context, kinds.SPAWN_ACTOR, ("a", "agent"), "actor", ({},), [b"class"])
    cast(outbox, targets("a"))
    outbox.send_to_actor(context, kinds.STOP_ACTOR, ("a", "agent"), "actor", ("why",), [b""])

    assert [kind for kind, _, _ in runtime.routes.links["a"].sent] == [
        kinds.SPAWN_ACTOR,
        kinds.CALL,
        kinds.STOP_ACTOR,
    ]
    assert runtime.routes.links["a"].numbers == [0, 1, 2]


def test_the_number_of_a_message_that_could_not_be_sent_is_not_missing(
    outbox: Outbox, runtime: Runtime
):
    cast(outbox, targets("a"))
    link = runtime.routes.links["a"]
    link.error = OSError("no memory")

    with pytest.raises(OSError, match="no memory"):
        cast(outbox, targets("a"))
    link.error = None
    cast(outbox, targets("a"))

    assert link.numbers == [0, 1, 2]
    assert [routing[5] for _, routing, _ in link.sent] == ["step", "", "step"]


def test_what_is_sent_to_this_process_is_delivered_as_a_copy(outbox: Outbox, runtime: Runtime):
    array = np.arange(50_000)

    cast(outbox, targets("me"), args=(array,))
    ((kind, routing, parts),) = runtime.delivered
    received = loads(parts)[0][0]
    array[:] = 0

    assert kind == kinds.CALL
    assert routing[:2] == ["me", "actor"]
    assert received[-1] == 49_999


@pytest.mark.needs_linux
def test_a_large_argument_goes_through_shared_memory_and_is_accounted_for(
    outbox: Outbox, runtime: Runtime
):
    cast(outbox, targets("a", "b"), args=(np.zeros(300_000, np.uint8),))

    assert [runtime.routes.links[proc].sent[0][2] for proc in "ab"] == [None, None]
    assert [proc for proc, _ in runtime.bulk.taken] == ["a", "b"]
    assert outbox.bulk_bytes == runtime.bulk.taken[0][1] >= 300_000


def test_a_call_to_the_dead_fails_at_once_if_an_answer_is_wanted(outbox: Outbox, runtime: Runtime):
    runtime.routes.dead["a"] = {"text": "was killed"}

    cast(outbox, targets("a"), port=7)
    cast(outbox, targets("a"))

    assert runtime.failed == ["a"]


def test_a_link_that_was_lost_is_dialled_again(outbox: Outbox, runtime: Runtime):
    lost = runtime.routes.links["a"] = Link()
    lost.lost = True
    fresh = Link()
    runtime.routes.to = lambda *_: fresh  # type: ignore[method-assign]

    cast(outbox, targets("a"))

    assert (lost.numbers, fresh.numbers) == ([], [0])


def test_a_call_to_very_many_goes_by_their_hosts_agents(outbox: Outbox, runtime: Runtime):
    many = [(f"p{i}", f"agent{i % 2}", i) for i in range(10)]

    with configured(direct_links_max=4):
        cast(outbox, [*many, ("me", "", 10)], port=7)
    cast(outbox, many[:1])

    for index in range(2):
        (group, cast_frame) = runtime.routes.agents[f"agent{index}"].sent
        assert group[0] == kinds.GROUP
        name, _root, (_host, ranks, procs, below) = group[1]
        assert (ranks, procs) == (
            list(range(index, 10, 2)),
            [f"p{i}" for i in range(index, 10, 2)],
        )
        assert below == []
        assert cast_frame[0] == kinds.CAST
        head = msgspec.msgpack.decode(msgspec.msgpack.encode(cast_frame[1]), type=CastHead)
        assert (head.group, head.depth, head.root, head.actor) == (name, 1, "me", "actor")
        assert (head.method, head.port, head.extent) == ("step", 7, b"extent")
        assert [head.numbers.of(rank) for rank in range(10)] == [0] * 10
    assert [routing[7] for _, routing, _ in runtime.delivered] == [10]
    assert runtime.routes.links["p0"].numbers == [1]  # numbered on, whichever way it went


def test_a_dead_target_of_a_call_to_very_many_fails_it(outbox: Outbox, runtime: Runtime):
    runtime.routes.dead["p3"] = None

    with configured(direct_links_max=2):
        cast(outbox, targets("p0", "p1", "p2", "p3"), port=7)

    assert runtime.failed == ["p3"]


def test_numbers_are_forgotten_with_their_mesh_or_process(outbox: Outbox, runtime: Runtime):
    cast(outbox, targets("a", "b"))
    cast(outbox, targets("a"), actor="other")

    outbox.forget_mesh("actor")
    outbox.forget_proc("b")
    for _ in range(2):
        cast(outbox, targets("a", "b"))
    cast(outbox, targets("a"), actor="other")

    assert [r[4] for _, r, _ in runtime.routes.links["a"].sent if r[1] == "actor"] == [0, 0, 1]
    assert [r[4] for _, r, _ in runtime.routes.links["a"].sent if r[1] == "other"] == [0, 1]
    assert runtime.routes.links["b"].numbers == [0, 0, 1]


class Question:
    """A call that is answered."""

    rank = 3

    def __init__(self, port: int, link: Link | None) -> None:
        self.port = port
        self.source = "caller"
        self.link = link


def test_a_reply_goes_back_by_the_link_that_the_call_came_by(outbox: Outbox, runtime: Runtime):
    link = Link()

    outbox.reply(Question(7, link), 0, dumps("answer"))

    ((kind, routing, body),) = link.sent
    assert (kind, routing, loads([body or b""])) == (kinds.REPLY, ["caller", 7, 3, 0], "answer")
    assert runtime.routes.links == {}


def test_a_reply_finds_another_way_when_that_link_is_lost(outbox: Outbox, runtime: Runtime):
    link = Link()
    link.lost = True

    outbox.reply(Question(7, link), 0, dumps("answer"))

    assert link.sent == []
    assert runtime.routes.links["caller"].sent[0][1] == ["caller", 7, 3, 0]


def test_a_call_that_wants_no_answer_gets_none(outbox: Outbox, runtime: Runtime):
    outbox.reply(Question(-1, Link()), 0, dumps("answer"))

    assert outbox.messages == 0
    assert runtime.routes.links == {}
