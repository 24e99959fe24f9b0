"""The runtime of one process: what is sent, what arrives, and who gets it.

A message is pickled once, written by the sending thread straight to the receiver's socket, read by
the driving thread, and handed to the actor's own thread. `Runtime` is that path. Its neighbours:
`Routes` finds the link, `Faults` knows what died and who must hear of it, `ActorCell` runs a
message, a `Collector` waits for replies.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec

from danaus import _config
from danaus._core.recent import Recent
from danaus._net.address import is_tcp
from danaus._net.reactor import Reactor
from danaus._runtime.birth import Birth
from danaus._runtime.bounces import Bounces
from danaus._runtime.bulk import BulkBudget
from danaus._runtime.call import Call, Construct, Stop, Taker
from danaus._runtime.cell import ActorCell
from danaus._runtime.collect import Collector, PortQueue
from danaus._runtime.context import Context, Instance, actor_title
from danaus._runtime.control import Control
from danaus._runtime.faults import Faults
from danaus._runtime.outbox import Outbox, Target
from danaus._runtime.outcome import FAILED, close_failure
from danaus._runtime.routes import Routes
from danaus._runtime.setup import SETUP, Setup
from danaus._runtime.waits import Waits
from danaus._shape import Extent, Point
from danaus._wire import kinds
from danaus._wire.codec import set_threshold
from danaus.errors import MeshFailure

if TYPE_CHECKING:
    from danaus._net.link import Link
    from danaus._runtime.outgoing import OutgoingCall
    from danaus._wire.frame import Frame

__all__ = ["Runtime", "Target"]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode

_SINGLE = Extent([], [])


class Runtime:
    """One process's part of the system."""

    def __init__(self, me: str, host: str) -> None:  # noqa: PLR0915  # its fields
        self.id = me
        self.host = host
        """Name of the host, for people."""
        self.address = ""
        """Address of this process's own agent; empty for a client that has none yet."""
        self.reactor = Reactor()
        self.faults = Faults(self)
        self.control = Control(self)
        self.routes = Routes(
            me, self.reactor, self._on_frame, self.faults.proc_died, self._agent_lost
        )
        self.routes.own_address = lambda: self.address_of(me, None)
        self.cells: dict[str, ActorCell] = {}
        self.ending: set[ActorCell] = set()
        """Actors that have failed, and are cleaning up."""
        self.gone: Recent[str, MeshFailure] = Recent(10_000)
        """Actors of this process that have ended: why."""
        self.ports: dict[int, Collector] = {}
        self.bulk = BulkBudget()
        self.outbox = Outbox(self)
        self.waits = Waits(self)
        self.bounces = Bounces(self)
        self.reply = self.outbox.reply
        """`Outbox.reply`."""
        self._port_numbers = count(1)
        self._early: dict[str, list[tuple[Link | None, int, list[Any], Taker]]] = {}
        self.root: Context | None = None
        """Context of a client's own code; None in a proc."""
        self.received = 0
        self.closed = False
        self.forked = False
        """True in a child of the process that it belongs to."""
        self.setup = Setup(self)
        self.exit_hooks: list[Callable[[], None]] = []
        """Called when the interpreter ends while the runtime is up."""
        self.at_close: list[Callable[[float], None]] = []
        """Called when a client's runtime is closed, its links still being up: what ends the hosts
        of its jobs, within about so many seconds."""
        self.spec: dict[str, Any] = {}
        """In a proc: its description. Empty in a client."""
        self.host_lock = threading.Lock()
        self.local: Any = None
        """In a client: the agent of this machine, when it was started."""
        self.output: Any = None
        """In a client: prints what its procs print."""
        self.make_own_mesh: Callable[[Runtime], Any] | None = None
        self.on_demand: dict[str, Callable[[], None]] = {}
        """Actors that are made when the first message for them comes, by id."""
        set_threshold(_config.get("bulk_threshold"))

    def start(self) -> None:
        """Start the I/O thread."""
        self._io = threading.Thread(target=self.reactor.run, name="danaus-io", daemon=True)
        self._io.start()

    def wait_closed(self, timeout: float | None) -> bool:
        """Wait until the I/O thread has ended. False: time is up."""
        self._io.join(timeout)
        return not self._io.is_alive()

    # sending

    def new_port(self, collector: Collector) -> int:
        """A number under which ``collector`` gets what is sent to this process's port."""
        port = next(self._port_numbers)
        self.ports[port] = collector
        return port

    def forget_port(self, port: int) -> None:
        """Nothing is taken at this port any more."""
        self.ports.pop(port, None)

    def forget_proc(self, proc: str) -> None:
        """A process has ended: nothing more is sent to it."""
        self.outbox.forget_proc(proc)
        self.bounces.died(proc)
        self.control.pids.pop(proc, None)

    def context_of(self, actor: str) -> Context:
        """The context in which an actor of this process sends."""
        cell = self.cells.get(actor)
        if cell is not None and cell.identity is not None:
            return Context(cell.identity)
        if self.root is not None and actor == self.root.actor_instance.uid:
            return self.root
        return Context(Instance(self, actor, name=actor, class_name="", rank=Point(0, _SINGLE)))

    def _agent_lost(self, address: str, why: str) -> None:
        self.outbox.trees.host_lost(address)
        self.faults.agent_died(address, why)

    # receiving, on the driving thread

    def _on_frame(self, link: Link, frame: Frame, fds: list[int]) -> None:
        kind = frame.kind
        if kind >= kinds.FIRST_CONTROL:
            self._on_control(link, frame, fds)
            return
        routing = _decode(frame.routing)
        self.received += 1
        parts: Any = frame.parts  # none of them is missing where there is no shared memory
        taker = Taker(frame, fds[0], None) if fds else Taker(None, -1, parts)
        self.deliver(kind, routing, taker, link)

    def _on_control(self, link: Link, frame: Frame, fds: list[int]) -> None:
        kind = frame.kind
        if kinds.FIRST_OF_TREE <= kind <= kinds.LAST_OF_TREE:
            self.outbox.trees.on_frame(link, frame, fds)
        else:
            self.control.on_control(link, kind, _decode(frame.routing), fds)

    def deliver(self, kind: int, routing: list[Any], take: Taker, link: Link | None) -> None:
        """Give a message to whom it is for; ``link`` is None when this process sent it."""
        if kind == kinds.CALL:
            cell = self.cells.get(routing[1])
            if cell is None:
                self._call_without_cell(routing, take, link)
                return
            self._accept(cell, routing, Call(routing, take, link))
        elif kind == kinds.REPLY:
            self._on_reply(routing, take)
        elif kind == kinds.SPAWN_ACTOR:
            self._on_spawn(routing, take, link)
        elif kind == kinds.STOP_ACTOR:
            self._on_stop(routing, link)
        elif kind == kinds.SUPERVISE:
            self.faults.on_supervise(routing)
        elif kind == kinds.BULK_DONE:
            self.bulk.give_back(routing[1], routing[2])
        elif kind == kinds.HERE:
            self.bounces.heard_of(routing[1])
        elif kind == kinds.PROBE:
            self.waits.on_probe(routing)

    def _accept(self, cell: ActorCell, routing: list[Any], item: Any) -> None:
        """Hand an actor a message, and what waited for it, in order."""
        refused: list[Any] = []
        # The I/O thread brings what other processes send; actors of this one bring their own.
        with cell.lock:
            for ready in cell.inbox.accept((routing[2], routing[3]), routing[4], item):
                if cell.failure is not None or cell.stopped:
                    refused.append(ready)
                else:
                    cell.post(ready)
        if cell.failure is None and not cell.stopped:
            return
        why = cell.failure or self.gone.get(cell.uid) or self.stopped_failure(cell, "stopped")
        for ready in refused:
            self._refuse(ready, why)
        cell.close_queue(why)  # it may have ended as this was queued

    def _refuse(self, item: Any, failure: MeshFailure) -> None:
        if isinstance(item, Call):
            self.consumed(item)
            if item.method:
                self.reply(item, FAILED, close_failure(failure))
        elif isinstance(item, Stop):
            self.stopped(item)

    def _call_without_cell(self, routing: list[Any], take: Taker, link: Link | None) -> None:
        uid = routing[1]
        if uid == SETUP:
            self.setup.answer(Call(routing, take, link))
            return
        failure = self.gone.get(uid)
        if failure is not None:
            self._refuse(Call(routing, take, link), failure)
            return
        self._hold_early(uid, kinds.CALL, routing, take, link)
        make = self.on_demand.pop(uid, None)
        if make is not None:
            make()

    def _hold_early(
        self, uid: str, kind: int, routing: list[Any], take: Taker, link: Link | None
    ) -> None:
        """The actor's spawn comes by another link, and has not arrived yet."""
        held = self._early.setdefault(uid, [])
        held.append((link, kind, routing, take))
        if len(held) == 1:
            patience = _config.get("message_delivery_timeout")
            self.reactor.call_later(patience, lambda: self._give_up(uid))
        if uid in self.cells:
            self._deliver_early(uid)  # an actor of this process has spawned it meanwhile

    def _give_up(self, uid: str) -> None:
        for link, kind, routing, take in self._early.pop(uid, []):
            failure = MeshFailure(
                uid,
                [0],
                "no such actor was spawned in this process",
                host=self.host,
                pid=os.getpid(),
            )
            if kind == kinds.CALL:
                self._refuse(Call(routing, take, link), failure)

    def _on_spawn(self, routing: list[Any], take: Taker, link: Link | None) -> None:
        uid = routing[1]
        if uid not in self.cells and uid not in self.gone:
            self.cells[uid] = ActorCell(self, uid, Birth(routing[5]))
            self.faults.actor_started(self.cells[uid])
        cell = self.cells.get(uid)
        if cell is None:
            return
        self._accept(cell, routing, Construct(routing[2], take, link))
        self._deliver_early(uid)

    def _deliver_early(self, uid: str) -> None:
        for held_link, kind, held, held_take in self._early.pop(uid, []):
            self.deliver(kind, held, held_take, held_link)

    def _on_stop(self, routing: list[Any], link: Link | None) -> None:
        uid = routing[1]
        stop = Stop(routing[5], routing[2], routing[6], routing[7], link)
        cell = self.cells.get(uid)
        if cell is None:
            if uid in self.gone:
                self.stopped(stop)
            else:
                self._hold_early(uid, kinds.STOP_ACTOR, routing, Taker(None, -1, [b""]), link)
            return
        self._accept(cell, routing, stop)
        patience = _config.get("stop_actor_timeout")
        self.reactor.call_later(patience, lambda: cell.give_up(stop))

    def _on_reply(self, routing: list[Any], take: Taker) -> None:
        port = routing[1]
        collector = self.ports.get(port)
        if collector is not None and collector.on_reply(routing[2], routing[3], take):
            self.ports.pop(port, None)
            if self.outbox.trees.awaited:
                self.outbox.trees.close(port)

    def fail_targets(
        self, proc: str, failure_for: Callable[[OutgoingCall, int], MeshFailure | None]
    ) -> None:
        """Tell those who wait for replies from ``proc`` that there will be none."""
        for port, collector in list(self.ports.items()):
            for target, rank in collector.targets:
                if target == proc:
                    failure = failure_for(collector.call, rank)
                    if failure is not None and collector.on_failure(rank, failure):
                        self.ports.pop(port, None)
                        self.outbox.trees.close(port)
                        break

    # actors of this process

    def identity_for(self, cell: ActorCell, mesh: Any, creator: Any) -> Instance:
        """The instance that an actor's own code sees."""
        birth = cell.birth
        rank = Point(birth.rank, Extent(birth.labels, birth.sizes))
        cls = cell.cls
        return Instance(
            self,
            cell.uid,
            name=birth.name,
            class_name=cls.__name__,
            rank=rank,
            proc_mesh=mesh,
            creator=creator,
            path=actor_title(
                birth.path,
                f"{cls.__module__}.{cls.__qualname__}",
                birth.name,
                birth.rank,
                (birth.labels, birth.sizes),
            ),
        )

    def constructing(self, cell: ActorCell) -> None:
        """An instance is about to be initialised: its code may look at itself."""
        cell.instance.__dict__.setdefault("_danaus_identity", cell.identity)

    def port_for(self, call: Call) -> Any:
        """The response port of a call, for an endpoint that answers by it."""
        from danaus._runtime.ports import Port

        port: Port[Any] = Port(call.source, "", call.port, call.rank, self, link=call.link)
        port.return_undeliverable = False  # that the caller has died is no fault of this actor
        return port

    def consumed(self, call: Call) -> None:
        """The parts of a call were taken, or will not be: give its sender the room back."""
        nbytes = call.take.nbytes
        if nbytes and call.link is not None:
            call.take.nbytes = 0
            routing = _encode((call.source, self.id, nbytes))
            call.link.send_small(kinds.BULK_DONE, routing, b"")

    def stopped(self, stop: Stop) -> None:
        """Confirm that an actor has ended."""
        from danaus._runtime.outcome import VALUE
        from danaus._wire.codec import dumps

        self.reply(stop, VALUE, dumps(None))

    def stopped_failure(self, cell: ActorCell, reason: str) -> MeshFailure:
        """What callers of a stopped actor are told."""
        return MeshFailure(
            cell.birth.name,
            [cell.birth.rank],
            f"the actor was stopped: {reason}",
            actor_class=cell.cls.__name__,
            host=self.host,
            pid=os.getpid(),
        )

    def failure_of_actor(
        self, cell: ActorCell, reason: str, origin: MeshFailure | None
    ) -> MeshFailure:
        """Describe the death of an actor of this process."""
        return MeshFailure(
            cell.birth.name,
            [cell.birth.rank],
            reason,
            actor_class=cell.cls.__name__ if cell.cls is not object else "",
            host=self.host,
            pid=os.getpid(),
            title=cell.identity.path if cell.identity is not None else "",
            origin=origin,
        )

    def actor_died(
        self, cell: ActorCell, failure: MeshFailure, cause: str, *, in_cleanup: bool = False
    ) -> None:
        """An actor has failed: its owner is told, what it owns is stopped.

        Args:
            cell: The actor.
            failure: Its death.
            cause: Id of what began it; empty where it begins here.
            in_cleanup: It failed while it was being stopped.
        """
        self.gone[cell.uid] = failure
        self.ending.add(cell)
        self.cells.pop(cell.uid, None)
        self.faults.actor_died(cell, failure, cause, in_cleanup=in_cleanup)

    def actor_stopped(self, cell: ActorCell, reason: str) -> None:
        """An actor has ended in good order."""
        self.gone[cell.uid] = self.stopped_failure(cell, reason)
        self.cells.pop(cell.uid, None)
        self.faults.actor_gone(cell.uid, reason)

    def stop_owned_by(self, uid: str, reason: str) -> None:
        """Stop what an actor owns, and wait until it has ended."""
        self.faults.stop_owned_by(uid, reason)

    def abort_actor(self, uid: str, reason: str) -> None:
        """Let an actor of this process die after its current message."""
        cell = self.cells.get(uid)
        if cell is not None:
            cell.abort(reason)

    def stop_own_actor(self, uid: str, reason: str) -> None:
        """Let an actor of this process end after what is queued now."""
        cell = self.cells.get(uid)
        if cell is not None:
            cell.post(Stop(reason, self.id, -1, 0, None))

    # the process

    def own_proc_mesh(self) -> Any:
        """This process as a mesh of one."""
        if self.make_own_mesh is None:
            raise RuntimeError("this process has no proc mesh")
        return self.make_own_mesh(self)

    def address_of(self, proc: str, link: Link | None) -> str:
        """Address of the agent by which a process can be reached from elsewhere."""
        del link
        if proc != self.id:
            return self.routes.address_of(proc)
        if self.spec:
            return self.address
        # A client is known to the agents that it has met; those of other hosts reach everybody.
        agents = list(self.routes.agents)
        return (
            next((at for at in agents if is_tcp(at)), "") or self.address or next(iter(agents), "")
        )

    # the end

    def statistics(self) -> dict[str, int]:
        """Counts of this process since it started."""
        links = self.routes.all_links()
        return {
            "messages_sent": self.outbox.messages,
            "messages_received": self.received,
            "bytes_sent": sum(link.bytes_out for link in links) + self.routes.retired_bytes[0],
            "bytes_received": sum(link.bytes_in for link in links) + self.routes.retired_bytes[1],
            "bulk_bytes": self.outbox.bulk_bytes,
            "frames_sent": sum(link.frames_out for link in links) + self.routes.retired_frames[0],
            "frames_received": sum(link.frames_in for link in links)
            + self.routes.retired_frames[1],
        }

    def close(self) -> None:
        """End all links and the I/O thread."""
        if self.closed:
            return
        self.closed = True
        self.reactor.call_soon(self.routes.close)
        self.reactor.close()
        if self._io is not threading.current_thread():
            self._io.join(2.0)
        self.routes.close()
        if not self._io.is_alive():
            self.reactor.dispose()
        self._fail_ports()

    def _fail_ports(self) -> None:
        """Nothing arrives any more: tell who waits."""
        why = "the context was shut down"
        for collector in list(self.ports.values()):
            if isinstance(collector, PortQueue):
                collector.close(why)
            for _, rank in collector.targets:
                call = collector.call
                collector.on_failure(
                    rank, MeshFailure(call.mesh_name, [rank], why, actor_class=call.class_name)
                )
        self.ports.clear()

    def forget_after_fork(self) -> None:
        """In a forked child: let go of what belongs to the parent.

        Takes no lock: a thread that the child does not have may hold it.
        """
        self.closed = self.forked = True
        for cell in list(self.cells.values()):
            cell.forget_after_fork()
        self.routes.forget_after_fork()
        try:
            self.reactor.dispose()
        except OSError:
            return

    _io: threading.Thread = threading.current_thread()
