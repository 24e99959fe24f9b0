"""Which client gets which output, and how often it is asked to take some."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from danaus._proc.agent import Agent
from danaus._proc.outlet import Outlet
from danaus._proc.output import LogDirectory
from danaus._proc.record import ProcRecord
from danaus._wire import kinds
from danaus._wire.frame import Frame

Sent = tuple[int, list[Any]]

MIB = 1 << 20


class FakeLink:
    """Records what is sent on it."""

    def __init__(self, peer: str):
        self.peer = peer
        self.queued = 0
        self.sent: list[Sent] = []

    def send_small(self, kind: int, routing: bytes, body: bytes) -> bool:
        self.sent.append((kind, msgspec.msgpack.decode(routing)))
        return True

    def forward(self, frame: Frame, fds: list[int]) -> bool:
        return self.send_small(frame.kind, cast("bytes", frame.routing), b"")

    def kinds(self) -> list[int]:
        return [kind for kind, _ in self.sent]


class FakeAgent:
    """Has procs, clients and links, and runs nothing."""

    name = "node"

    def __init__(self, *clients: str):
        self.clients = {name: SimpleNamespace(link=FakeLink(name)) for name in clients}
        self.procs: dict[str, ProcRecord] = {}
        self.tombs: dict[str, Any] = {}
        self.outlet = Outlet(cast("Agent", self))

    def link_of(self, name: str) -> Any:
        record = self.procs.get(name)
        return record.link if record is not None else self.link(name)

    def link(self, name: str) -> Any:
        client = self.clients.get(name)
        return client.link if client is not None else None

    def add(self, name: str, owner: str, root: str = "client", *, pid: int = 7) -> ProcRecord:
        spec = {
            "id": name, "owner": owner, "root": root, "mesh": "m", "label": "trainers", "rank": 3,
            "sizes": [2, 4],
        }  # fmt: skip
        record = ProcRecord(spec, 0, LogDirectory("node"), 10)
        record.pid = pid
        record.link = cast("Any", FakeLink(name))
        self.procs[name] = record
        return record

    def ask(self, asker: str, kind: int, routing: list[Any]) -> None:
        frame = cast("Frame", SimpleNamespace(kind=kind, routing=msgspec.msgpack.encode(routing)))
        self.outlet.on_frame(self.link_of(asker), frame, routing)


@pytest.fixture
def agent() -> FakeAgent:
    return FakeAgent("client")


LINE = [b"hello"]
SOURCE = ["m", "trainers", "node", 7, 3, 8]


def options(*entries: list[Any], streams: bool = True, window: float | None = None, **more: Any):
    level, whole = more.get("level", 20), more.get("whole", True)
    return ["client", "m", list(entries), whole, streams, window, level, 5]


def test_output_goes_to_the_client_that_its_proc_descends_from(agent: FakeAgent):
    agent.add("above", "client")
    below = agent.add("below", "above")

    agent.outlet.show(below, 1, LINE)

    assert agent.link("client").sent == [(kinds.LOG, ["client", SOURCE, 1, LINE])]


def test_output_goes_by_way_of_the_spawner_where_the_client_is_not_known():
    agent = FakeAgent("elsewhere")
    agent.add("above", "elsewhere")

    agent.outlet.show(agent.add("below", "above"), 1, LINE)

    assert agent.link("elsewhere").sent == [(kinds.LOG, ["client", SOURCE, 1, LINE])]


def test_output_of_nobody_that_is_there_is_dropped():
    agent = FakeAgent()

    agent.outlet.show(agent.add("orphan", "gone"), 1, LINE)


def test_output_that_a_proc_relays_goes_on_to_the_client(agent: FakeAgent):
    agent.add("relay", "client")

    agent.ask("relay", kinds.LOG, ["client", SOURCE, 1, LINE])

    assert agent.link("client").sent == [(kinds.LOG, ["client", SOURCE, 1, LINE])]


def test_output_before_the_pid_is_known_waits_for_it(agent: FakeAgent):
    record = agent.add("proc", "client", pid=0)
    agent.outlet.show(record, 1, [b"early"])
    assert agent.link("client").sent == []

    record.pid = 7
    agent.outlet.started(record)
    agent.outlet.show(record, 1, [b"late"])

    assert [routing[3] for _, routing in agent.link("client").sent] == [[b"early"], [b"late"]]
    assert {routing[1][3] for _, routing in agent.link("client").sent} == {7}


def test_end_is_told_for_procs_that_have_printed_only(agent: FakeAgent):
    loud, quiet = agent.add("loud", "client"), agent.add("quiet", "client")
    agent.outlet.show(loud, 1, LINE)

    agent.outlet.ended(loud)
    agent.outlet.ended(quiet)

    assert agent.link("client").sent[1:] == [(kinds.LOG_END, ["client", "m", "node", 7, False])]


def test_client_that_does_not_read_misses_lines_and_is_told_how_many(agent: FakeAgent):
    record, client = agent.add("proc", "client"), agent.link("client")
    client.queued = 17 * MIB
    agent.outlet.show(record, 1, [b"a", b"b"])
    agent.outlet.show(record, 2, [b"c"])
    assert client.sent == []

    client.queued = 9 * MIB  # it has begun to read, but would miss more very soon
    agent.outlet.show(record, 1, [b"d"])
    assert client.sent == []
    client.queued = 7 * MIB
    agent.outlet.show(record, 1, LINE)

    notice, line = client.sent
    assert notice[1][3][0].startswith(b"4 lines were left out, as output came faster than")
    assert notice[1][1][:3] == ["", "agent", "node"]
    assert line[1][3] == LINE


def test_lines_that_were_missed_at_the_end_are_told_of_too(agent: FakeAgent):
    record, client = agent.add("proc", "client"), agent.link("client")
    agent.outlet.show(record, 1, LINE)
    client.queued = 17 * MIB
    agent.outlet.show(record, 1, [b"a"])

    agent.outlet.ended(record)

    assert client.sent[1][1][3][0].startswith(b"1 line was left out")
    assert client.kinds()[2:] == [kinds.LOG_END]


# options


def test_options_reach_the_procs_after_the_client_knows_of_the_window(agent: FakeAgent):
    record = agent.add("proc", "client")

    agent.ask("client", kinds.LOG_OPTIONS, options(["proc", 0], window=3.0, level=30))

    assert agent.link("client").sent == [(kinds.LOG_WINDOW, ["client", "m", 3.0])]
    assert agent.link_of("proc").sent == [(kinds.LOG_LEVEL, [30, "client", 5, 0])]
    assert record.watchers == {"client"}


def test_silenced_proc_sends_nothing(agent: FakeAgent):
    record = agent.add("proc", "client")
    agent.ask("client", kinds.LOG_OPTIONS, options(["proc", 0], streams=False))

    agent.outlet.show(record, 1, LINE)

    assert kinds.LOG not in agent.link("client").kinds()


def test_procs_that_have_ended_are_answered_for(agent: FakeAgent):
    agent.tombs["dead"] = None

    agent.ask("client", kinds.LOG_OPTIONS, options(["dead", 4]))

    assert agent.link("client").sent[-1] == (kinds.REPLY, ["client", 5, 4, 0])


def test_options_of_a_whole_mesh_hold_for_what_is_started_later(agent: FakeAgent):
    agent.ask("client", kinds.LOG_OPTIONS, options(["p", 0], streams=False, level=30))

    found = agent.outlet.options_of("m", "p again")

    assert (found["streams"], found["log_level"]) == (False, 30)
    assert agent.outlet.options_of("other", "q") == {}


def test_options_of_some_ranks_hold_for_those_that_are_still_to_be_started(agent: FakeAgent):
    agent.ask("client", kinds.LOG_OPTIONS, options(["p", 0], streams=False, whole=False))

    assert agent.outlet.options_of("m", "p")["streams"] is False
    assert agent.outlet.options_of("m", "another") == {}


def test_options_are_forgotten_with_their_client(agent: FakeAgent):
    agent.ask("client", kinds.LOG_OPTIONS, options(["p", 0], streams=False))

    agent.outlet.forget("client")

    assert agent.outlet.options_of("m", "p") == {}


def test_flush_is_answered_with_the_number_that_it_came_with(agent: FakeAgent):
    agent.ask("client", kinds.LOG_FLUSH, [9, 2])

    assert agent.link("client").sent == [(kinds.REPLY, ["client", 9, 2, 0])]
