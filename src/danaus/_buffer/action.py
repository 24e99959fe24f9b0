"""Many reads and writes at once."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Self

from danaus._runtime.future import Future, new_future
from danaus._runtime.process import context

if TYPE_CHECKING:
    from danaus._buffer.buffer import RDMABuffer

__all__ = ["RDMAAction"]


class RDMAAction:
    """A batch of reads and writes, which may be submitted more than once.

    They run in no order, at the same time; that none of them touches what another writes is the
    caller's business.

    Example:
        >>> action = RDMAAction().read_remote(weights, their_weights).read_remote(bias, their_bias)
        >>> action.submit().get()
    """

    def __init__(self) -> None:
        self._steps: list[tuple[bool, RDMABuffer, Any]] = []
        self._lock = threading.Lock()
        self._pending = 0

    def __len__(self) -> int:
        return len(self._steps)

    def read_remote(self, dst: Any, src: RDMABuffer) -> Self:
        """Add: copy all of ``src`` into ``dst``, memory of this process.

        Raises:
            ValueError: ``dst`` is smaller, not contiguous, or read-only.
            RuntimeError: The batch is under way.
        """
        src.check_destination(dst)
        return self._add(True, src, dst)  # noqa: FBT003  # a read

    def write_remote(self, dst: RDMABuffer, src: Any) -> Self:
        """Add: copy ``src``, memory of this process, into ``dst``.

        Raises:
            ValueError: ``src`` is larger, or not contiguous.
            RuntimeError: The batch is under way.
        """
        dst.check_source(src)
        return self._add(False, dst, src)  # noqa: FBT003  # a write

    def _add(self, reads: bool, buffer: RDMABuffer, memory: Any) -> Self:  # noqa: FBT001  # ours
        with self._lock:
            if self._pending:
                raise RuntimeError("the action is under way; wait for it before adding to it")
            self._steps.append((reads, buffer, memory))
        return self

    def fetch_add(self, *_args: Any) -> Self:
        """Not there: nothing but a network card could do it in one step."""
        raise NotImplementedError("fetch_add is not supported")

    def compare_and_swap(self, *_args: Any) -> Self:
        """Not there: nothing but a network card could do it in one step."""
        raise NotImplementedError("compare_and_swap is not supported")

    def submit(self, *, timeout: int = 60) -> Future[None]:
        """Do all; a future that is settled when all are done, with the first error if there is one.

        Args:
            timeout: Seconds that each may take where messages are needed.
        """
        done: Future[None] = new_future(context().actor_instance.runtime.reactor)
        with self._lock:
            steps = list(self._steps)
            self._pending += 1
        futures = [
            buffer.read_into(memory, timeout=timeout)
            if reads
            else buffer.write_from(memory, timeout=timeout)
            for reads, buffer, memory in steps
        ]
        left = len(futures) + 1
        lock = threading.Lock()

        def one() -> None:
            nonlocal left
            with lock:
                left -= 1
                if left:
                    return
            with self._lock:
                self._pending -= 1
            error = next((e for f in futures if (e := f.exception(0)) is not None), None)
            if error is None:
                done.set_value(None)
            else:
                done.set_error(error)

        for future in futures:
            future.add_callback(one)
        one()
        return done
