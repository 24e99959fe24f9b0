"""Replies of a host and of those below it become one, in a proc: agents run no code of users."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from danaus._net.shared import send_parts
from danaus._runtime.outcome import COVERED, RAISED, VALUE, close_error
from danaus._wire import kinds
from danaus._wire.codec import dumps, loads
from danaus._wire.tree_frames import Batch, decode_batch, encode_batch

if TYPE_CHECKING:
    from danaus._net.link import Link

__all__ = ["Combining", "combine"]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode

_COVERED = (COVERED, (b"",))


def combine(batch: Batch, function: bytes) -> Batch:
    """Combine the values of a batch, by ascending ranks; errors among them are left as they are.

    The lowest rank of those that are combined answers for all. What the pickled ``function``
    raises is its answer, too.
    """
    values = {rank: parts for rank, (status, parts) in batch.entries if status == VALUE}
    if len(values) < 2:  # noqa: PLR2004  # one cannot be combined with itself
        return batch
    ranks = sorted(values)
    status = VALUE
    try:
        two: Callable[[Any, Any], Any] = loads([function])
        result = loads(values[ranks[0]])
        for rank in ranks[1:]:
            result = two(result, loads(values[rank]))
        parts: Any = dumps(result)
    except BaseException as error:  # noqa: BLE001  # border: user code
        status = RAISED
        parts = close_error(error, "Combining the replies of a call has failed.")
    entries: list[Any] = [(ranks[0], (status, parts))]
    entries.extend((rank, _COVERED) for rank in ranks[1:])
    entries.extend(entry for entry in batch.entries if entry[1][0] != VALUE)
    return batch._replace(entries=entries)


class Combining:
    """Combines batches on a thread of its own: actors and links go on meanwhile."""

    def __init__(self) -> None:
        self._batches: deque[tuple[Link, bytes, Any]] = deque()
        self._lock = threading.Lock()
        self._busy = False

    def put(self, link: Link, routing: bytes, parts: Any) -> None:
        """Combine a batch, and send it back on ``link``."""
        with self._lock:
            self._batches.append((link, routing, parts))
            if self._busy:
                return
            self._busy = True
        threading.Thread(target=self._run, name="danaus-combine", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._batches:
                    self._busy = False
                    return
                link, routing, parts = self._batches.popleft()
            token, inner, function = _decode(routing)
            routing, out = encode_batch(combine(decode_batch(inner, parts), function))
            send_parts(link, kinds.COMBINE, _encode((token, routing)), out)
