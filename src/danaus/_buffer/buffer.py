"""Buffers: handles of memory that can be sent anywhere, and read and written from there."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from danaus._buffer import cross_memory
from danaus._buffer.local_memory import LocalMemory
from danaus._buffer.regions import host_identity, regions
from danaus._runtime.future import Future, new_future
from danaus._runtime.process import context
from danaus.errors import BufferGone

if TYPE_CHECKING:
    from collections.abc import Callable

    from danaus._runtime.router import Runtime

__all__ = ["Handle", "RDMABuffer"]

_AT_ONCE = 1 << 20
"""Bytes that are copied by the calling thread: it takes less time than to wake another."""

_STAGE = 8 << 20
"""Bytes of one message, where the owner copies."""

_LONGEST = (1 << 64) - 1


class Handle(NamedTuple):
    """Where memory lies, and the key to it."""

    host: str
    proc: str
    agent: str
    """Address of its host's agent; empty in the owner itself."""
    pid: int
    slot: int
    key: int
    address: int
    nbytes: int


class RDMABuffer:
    """A handle of memory that any process can read and write; pickled, it is small.

    Its owner's Python takes no part in what others do: it may compute, or be stopped. Whoever reads
    while somebody writes may get some of both; programs say by messages when memory is ready.

    The memory is kept until `drop`, or until its owner ends: handles of it may be anywhere. Where
    it lies is where it stays: it must not be resized meanwhile. A second buffer of the same memory
    is the same buffer.

    Args:
        data: A contiguous buffer object, numpy array, or torch tensor on the CPU, of any shape.

    Raises:
        ValueError: It is empty, or not contiguous.
        TypeError: It is no memory.

    Example:
        >>> weights = np.zeros(1_000_000)
        >>> buffer = RDMABuffer(weights)  # in one actor
        >>> buffer.read_into(mine).get()  # in another, which has got the buffer in a message
    """

    __slots__ = ("__weakref__", "_handle", "_way")

    def __init__(self, data: Any) -> None:
        from danaus._buffer.stager import serve

        runtime = context().actor_instance.runtime
        memory = LocalMemory(data)
        if not memory.nbytes:
            raise ValueError("Cannot create RDMABuffer with size 0.")
        serve(runtime)
        region = regions().register(memory)
        self._handle = Handle(
            host_identity(),
            runtime.id,
            "",
            os.getpid(),
            region.slot,
            region.key,
            region.address,
            region.nbytes,
        )
        self._way = ""

    @classmethod
    def from_handle(cls, handle: tuple[Any, ...]) -> RDMABuffer:
        """The buffer of a handle, in whatever process."""
        made = cls.__new__(cls)
        made._handle = Handle(*handle)  # noqa: SLF001  # our own
        made._way = ""  # noqa: SLF001  # our own
        return made

    def __reduce__(self) -> Any:
        handle = self._handle
        if not handle.agent and handle.proc == _runtime().id:
            handle = handle._replace(agent=_runtime().address_of(handle.proc, None))
        return (RDMABuffer.from_handle, (tuple(handle),))

    def __repr__(self) -> str:
        return f"<RDMABuffer of {self._handle.nbytes:,} bytes in {self._handle.proc}>"

    def size(self) -> int:
        """Its size in bytes."""
        return self._handle.nbytes

    @property
    def owner(self) -> str:
        """Id of the process that its memory belongs to."""
        return self._handle.proc

    @property
    def backend(self) -> str:
        """How this process reaches it: ``local``, ``cma`` (one host), or ``messages``."""
        if not self._way:
            self._way = self._choose()
        return self._way

    def _choose(self) -> str:
        if self._handle.proc == _runtime().id and self._handle.pid == os.getpid():
            return "local"
        if self._handle.host == host_identity() and cross_memory.is_possible():
            return "cma"
        return "messages"

    def check_destination(self, dst: Any) -> LocalMemory:
        """Memory of this process that all of it can be read into.

        Raises:
            ValueError: It is smaller, not contiguous, or read-only.
        """
        memory = LocalMemory(dst)
        size = self._handle.nbytes
        if memory.nbytes < size:
            raise ValueError(
                f"the destination has {memory.nbytes:,} bytes, and the buffer {size:,}"
            )
        if memory.readonly:
            raise ValueError("the destination is read-only")
        return memory

    def check_source(self, src: Any) -> LocalMemory:
        """Memory of this process that can be written into it.

        Raises:
            ValueError: It is larger, or not contiguous.
        """
        memory = LocalMemory(src)
        size = self._handle.nbytes
        if memory.nbytes > size:
            raise ValueError(f"the source has {memory.nbytes:,} bytes, and the buffer {size:,}")
        return memory

    def read_into(self, dst: Any, *, timeout: int = 60) -> Future[None]:
        """Copy all of it into memory of this process.

        Args:
            dst: Contiguous memory of at least its size; what is beyond stays as it is.
            timeout: Seconds that it may take where messages are needed.

        Raises:
            ValueError: ``dst`` is smaller, not contiguous, or read-only.
            OverflowError: The timeout is negative, or no 64-bit number.

        Raises, from the future:
            BufferGone: It was dropped, or its owner has ended.
        """
        memory = self.check_destination(dst)
        return self._start(self._read, memory, self._handle.nbytes, timeout)

    def write_from(self, src: Any, *, timeout: int = 60) -> Future[None]:
        """Copy memory of this process into it, from its beginning on.

        Args:
            src: Contiguous memory of at most its size; what is beyond stays as it is.
            timeout: Seconds that it may take where messages are needed.

        Raises:
            ValueError: ``src`` is larger, or not contiguous.
            OverflowError: The timeout is negative, or no 64-bit number.

        Raises, from the future:
            BufferGone: It was dropped, or its owner has ended.
            PermissionError: Its memory is read-only.
        """
        memory = self.check_source(src)
        return self._start(self._write, memory, memory.nbytes, timeout)

    def drop(self) -> Future[None]:
        """Let nobody touch the memory any more, and let its owner go of it. Twice is like once."""
        runtime = _runtime()
        if self.backend == "local":
            regions().drop(self._handle.key)
            done = new_future(runtime.reactor)
            done.set_value(None)
            return done
        from danaus._buffer.stager import stager_of

        return stager_of(self._handle.proc, self._handle.agent).drop.call_one(self._handle.key)

    # the ways

    def _start(
        self,
        copy: Callable[[LocalMemory, int, int], None],
        memory: LocalMemory,
        nbytes: int,
        timeout: int,
    ) -> Future[None]:
        if not 0 <= timeout <= _LONGEST:
            raise OverflowError(f"timeout must be a number of seconds from 0 on, got {timeout!r}")
        done: Future[None] = new_future(_runtime().reactor)

        def work() -> None:
            try:
                copy(memory, nbytes, timeout)
            except BaseException as error:  # noqa: BLE001  # handed to who waits
                done.set_error(error)
            else:
                done.set_value(None)

        if nbytes <= _AT_ONCE and self.backend != "messages":
            work()
        else:
            from danaus._buffer.copiers import copy_later

            copy_later(work)
        return done

    def _read(self, memory: LocalMemory, nbytes: int, timeout: int) -> None:
        if self.backend == "local":
            self._held()
            ctypes.memmove(memory.address, self._handle.address, nbytes)
        elif self.backend == "cma":
            self._cross(memory, nbytes, timeout, cross_memory.read, self._read)
        else:
            for offset in range(0, nbytes, _STAGE):
                piece = min(_STAGE, nbytes - offset)
                data = self._ask("read", timeout, offset, piece)
                memory.view(offset, piece)[:] = memoryview(data).cast("B")

    def _write(self, memory: LocalMemory, nbytes: int, timeout: int) -> None:
        if self.backend == "local":
            if self._held().readonly:
                raise PermissionError(f"{self!r} is read-only")
            ctypes.memmove(self._handle.address, memory.address, nbytes)
        elif self.backend == "cma":
            self._cross(memory, nbytes, timeout, cross_memory.write, self._write)
        else:
            for offset in range(0, nbytes, _STAGE):
                piece = min(_STAGE, nbytes - offset)
                self._ask("write", timeout, offset, memory.view(offset, piece))

    def _held(self) -> LocalMemory:
        held = regions().find(self._handle.key)
        if held is None:
            raise self._gone("it was dropped")
        return held

    def _cross(
        self,
        memory: LocalMemory,
        nbytes: int,
        timeout: int,
        copy: Callable[[int, int, int, int, int, int], None],
        again: Callable[[LocalMemory, int, int], None],
    ) -> None:
        try:
            copy(
                self._handle.pid,
                self._handle.slot,
                self._handle.key,
                self._handle.address,
                memory.address,
                nbytes,
            )
        except cross_memory.Vanished as why:
            raise self._gone(str(why)) from None
        except cross_memory.Refused:
            self._way = "messages"
            again(memory, nbytes, timeout)

    def _ask(self, what: str, timeout: int, *args: Any) -> Any:
        from danaus._buffer.stager import stager_of
        from danaus.errors import SupervisionError

        stager = stager_of(self._handle.proc, self._handle.agent)
        try:
            return getattr(stager, what).call_one(self._handle.key, *args).get(timeout)
        except SupervisionError as error:
            raise self._gone(f"its process has ended ({error})") from None

    def _gone(self, why: str) -> BufferGone:
        return BufferGone(f"{self!r} cannot be reached: {why}")


def _runtime() -> Runtime:
    return context().actor_instance.runtime
