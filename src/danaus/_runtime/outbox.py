"""What one process sends: numbered, pickled once, written by the thread that sends it.

A message to few processes goes straight to each. One to many goes to each host's agent, which
hands it to its procs. Numbers are given per (sending actor, receiving actor), so it does not
matter which way a message takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from danaus import _config
from danaus._net.shared import SharedPayload, share
from danaus._runtime.call import Taker
from danaus._runtime.numbers import MessageNumbers
from danaus._runtime.trees import Trees
from danaus._wire import kinds
from danaus._wire.codec import Parts, copy_parts

if TYPE_CHECKING:
    from danaus._net.link import Link
    from danaus._runtime.context import Context
    from danaus._runtime.outgoing import OutgoingCall
    from danaus._runtime.router import Runtime

__all__ = ["Address", "Outbox", "Target"]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode

Address = tuple[str, str]
"""(process, address of its agent); the address may be empty where a link is there already."""

Target = tuple[str, str, int]
"""(process, address of its agent, rank)."""


class Outbox:
    """The sending half of a `Runtime`."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._routes = runtime.routes
        self._numbers = MessageNumbers()
        self.trees = Trees(runtime)
        self.messages = 0
        """Messages sent so far."""
        self.bulk_bytes = 0
        """Bytes sent so far in shared memory."""

    def forget_mesh(self, actor: str) -> None:
        """A mesh of actors has ended: nothing more is sent to it."""
        self._numbers.forget_mesh(actor)

    def forget_proc(self, proc: str) -> None:
        """A process has ended: nothing more is sent to it."""
        self._numbers.forget_proc(proc)
        self.trees.proc_died(proc)

    def cast(
        self,
        context: Context,
        call: OutgoingCall,
        targets: Sequence[Target],
        extent: bytes,
        parts: Parts,
    ) -> None:
        """Send a call to each target; the replies come to its port (-1: none are wanted).

        Args:
            context: Who sends.
            call: Which actor, method and port.
            targets: Where to.
            extent: The mesh that it is sent to, encoded; empty for a mesh of one.
            parts: The pickled arguments.

        Raises:
            OSError: There is not enough shared memory, or no descriptor left.
        """
        me = self._runtime.id
        source_actor = context.actor_instance.uid
        actor, method, port = call.actor, call.method, call.port
        self.messages += len(targets)
        call.targets = targets
        payload = self._share(parts)
        try:
            audience = self.trees.audience(call.where, targets) if len(targets) > 1 else None
            if audience is not None:
                whole = payload or SharedPayload([len(p) for p in parts], list(parts), -1, 0)
                numbers = self._numbers.next_of(source_actor, actor, audience)
                self.trees.cast(source_actor, call, audience, extent, numbers, whole.another())
                targets = audience.rest
            for proc, address, rank in targets:
                seq = self._numbers.next(source_actor, actor, proc)
                try:
                    routing = _encode(
                        (proc, actor, me, source_actor, seq, method, port, rank, extent)
                    )
                    sent = self._send(kinds.CALL, proc, address, routing, parts, payload)
                    if not sent and port >= 0:
                        self.fail_dead(proc)
                except BaseException:
                    # The number is taken: without a message of that number the actor would wait.
                    self._skip(proc, address, actor, source_actor, seq)
                    raise
        finally:
            if payload is not None:
                payload.close()

    def fail_dead(self, proc: str) -> None:
        """Those who wait for a process that is dead already are told, if it is."""
        runtime = self._runtime
        if proc in self._routes.dead:
            report = self._routes.dead[proc]
            expected = bool(report and report.get("stopping"))
            runtime.fail_targets(
                proc,
                lambda call, rank: runtime.faults.for_call(proc, call, rank, expected=expected),
            )

    def _share(self, parts: Parts) -> SharedPayload | None:
        """Shared memory for large messages; None for small ones, which go as they are."""
        if len(parts) == 1 and len(parts[0]) < _config.get("bulk_threshold"):
            return None
        payload = share(parts)
        self.bulk_bytes += payload.nbytes
        return payload

    def _skip(self, proc: str, address: str, actor: str, source: str, seq: int) -> None:
        routing = _encode((proc, actor, self._runtime.id, source, seq, "", -1, 0, b""))
        self._send(kinds.CALL, proc, address, routing, [b""], None)

    def _send(
        self,
        kind: int,
        proc: str,
        address: str,
        routing: bytes,
        parts: Parts,
        payload: SharedPayload | None,
    ) -> bool:
        """Send a frame to a process, this one included. False: it is dead."""
        runtime = self._runtime
        if proc == runtime.id:
            runtime.deliver(kind, _decode(routing), Taker(None, -1, copy_parts(parts)), None)
            return True
        link = self._routes.links.get(proc)
        if link is None or link.lost:
            link = self._routes.to(proc, address)
            if link is None:
                return False
        if payload is None:
            return link.send_small(kind, routing, parts[0])  # type: ignore[arg-type]
        if payload.nbytes and kind == kinds.CALL and link.is_local:
            runtime.bulk.take(proc, payload.nbytes)
        return link.send(kind, routing, payload)

    def send_frame(self, kind: int, to: Address, routing: bytes) -> bool:
        """Send a frame without a body. False: the process is dead."""
        return self._send(kind, to[0], to[1], routing, [b""], None)

    def send_to_actor(
        self,
        context: Context,
        kind: int,
        to: Address,
        actor: str,
        rest: Sequence[Any],
        parts: Parts,
    ) -> bool:
        """Send a spawn or a stop, in order with the calls to that actor. False: it is dead."""
        proc, address = to
        source_actor = context.actor_instance.uid
        payload = self._share(parts)
        seq = self._numbers.next(source_actor, actor, proc)
        routing = _encode((proc, actor, self._runtime.id, source_actor, seq, *rest))
        try:
            return self._send(kind, proc, address, routing, parts, payload)
        finally:
            if payload is not None:
                payload.close()

    def reply(self, call: Any, status: int, parts: Parts) -> None:
        """Answer a call, on the link that it came by."""
        if call.port >= 0:
            rank = getattr(call, "rank", 0)
            self.send_to_port((call.source, ""), call.port, rank, status, parts, call.link)

    def send_to_port(
        self,
        to: Address,
        port: int,
        rank: int,
        status: int,
        parts: Parts,
        link: Link | None = None,
    ) -> bool:
        """Send a message to a port of any process. False: the process is dead."""
        self.messages += 1
        proc, address = to
        routing = _encode((proc, port, rank, status))
        payload = self._share(parts)
        try:
            if link is not None and not link.lost:
                if payload is None:
                    return link.send_small(kinds.REPLY, routing, parts[0])  # type: ignore[arg-type]
                return link.send(kinds.REPLY, routing, payload)
            return self._send(kinds.REPLY, proc, address, routing, parts, payload)
        finally:
            if payload is not None:
                payload.close()
