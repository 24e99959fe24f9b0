"""One-sided memory on one host: whoever reads and writes, the owner has no part in it (CASES R)."""

import os
import pickle
import random
import signal

import numpy as np
import pytest

from danaus.actor import Actor, endpoint, this_host, this_proc
from danaus.errors import BufferGone
from danaus.rdma import RDMAAction, RDMABuffer
from tests.integration.buffer_actors import Owner, Reader, checksum, pattern

PATIENCE = 30.0


@pytest.fixture
def owner() -> Owner:
    return this_host().spawn_procs().spawn("owner", Owner)


@pytest.fixture
def reader() -> Reader:
    return this_host().spawn_procs().spawn("reader", Reader)


def read(buffer: RDMABuffer) -> np.ndarray:
    data = np.zeros(buffer.size(), np.uint8)
    buffer.read_into(data).get(PATIENCE)
    return data


@pytest.mark.parametrize("size", [1, 4096, 4097, 1_048_577, 20_000_003])
def test_what_is_read_is_what_its_owner_has(owner: Owner, size: int):
    buffer = owner.lend.call_one(size, 3).get(PATIENCE)

    assert np.array_equal(read(buffer), pattern(3, size))
    assert buffer.size() == size


@pytest.mark.parametrize("size", [1, 4096, 5_000_001])
def test_what_is_written_is_what_its_owner_has(owner: Owner, reader: Reader, size: int):
    buffer = owner.lend.call_one(size).get(PATIENCE)

    written = reader.write.call_one(buffer, 9).get(PATIENCE)

    assert owner.checksum.call_one().get(PATIENCE) == written


def test_a_handle_is_small_and_knows_its_owner(owner: Owner):
    buffer = owner.lend.call_one(1000).get(PATIENCE)

    assert len(pickle.dumps(buffer)) < 300
    assert buffer.owner in repr(buffer)
    assert "1,000 bytes" in repr(buffer)


def test_the_shortest_way_is_taken(owner: Owner, reader: Reader):
    buffer = owner.lend.call_one(1000).get(PATIENCE)
    mine = RDMABuffer(bytearray(10))

    assert reader.backend.call_one(buffer).get(PATIENCE) == "cma"
    assert mine.backend == "local"


def test_memory_of_the_script_is_read_by_actors(reader: Reader):
    data = pattern(5, 3_000_000)

    assert reader.read.call_one(RDMABuffer(data)).get(PATIENCE) == checksum(data)


class Neighbour(Actor):
    @endpoint
    def add(self, buffer: RDMABuffer) -> str:
        data = bytearray(4)
        buffer.read_into(data).get(PATIENCE)
        buffer.write_from(b"done").get(PATIENCE)
        return data.decode()


def test_actors_of_one_process_share_without_the_kernel():
    memory = bytearray(b"once")
    neighbour = this_proc().spawn("neighbour", Neighbour)

    assert neighbour.add.call_one(RDMABuffer(memory)).get(PATIENCE) == "once"
    assert memory == b"done"


# R1


@pytest.mark.parametrize(
    ("data", "error", "text"),
    [
        (np.zeros((4, 4))[:, 1], ValueError, "not contiguous"),
        (np.zeros((4, 4)).T[1:], ValueError, "not contiguous"),
        (memoryview(bytearray(10))[::2], ValueError, "not contiguous"),
        (bytearray(), ValueError, "size 0"),
        (np.zeros(0), ValueError, "size 0"),
        ([1, 2], TypeError, r"a list is no memory"),
        ("text", TypeError, r"a str is no memory"),
    ],
)
def test_what_cannot_be_lent_is_refused(data: object, error: type[Exception], text: str):
    with pytest.raises(error, match=text):
        RDMABuffer(data)


def test_destinations_that_do_not_fit_are_refused(owner: Owner):
    buffer = owner.lend.call_one(100).get(PATIENCE)

    with pytest.raises(ValueError, match="99 bytes, and the buffer 100"):
        buffer.read_into(bytearray(99))
    with pytest.raises(ValueError, match="read-only"):
        buffer.read_into(bytes(100))
    with pytest.raises(ValueError, match="not contiguous"):
        buffer.read_into(np.zeros((20, 20), np.uint8)[:, 1])
    with pytest.raises(ValueError, match="101 bytes, and the buffer 100"):
        buffer.write_from(bytes(101))
    with pytest.raises(OverflowError):
        buffer.read_into(bytearray(100), timeout=-1)


def test_a_larger_destination_keeps_the_rest_and_a_smaller_source_leaves_it(owner: Owner):
    buffer = owner.lend.call_one(100, 1).get(PATIENCE)
    wide = bytearray(b"\x07" * 120)

    buffer.read_into(wide).get(PATIENCE)
    buffer.write_from(b"\x00" * 10).get(PATIENCE)

    assert wide == pattern(1, 100).tobytes() + b"\x07" * 20
    assert read(buffer).tobytes() == b"\x00" * 10 + pattern(1, 100).tobytes()[10:]


def test_memory_that_may_only_be_read_is_not_written(owner: Owner):
    buffer = owner.lend_read_only.call_one().get(PATIENCE)

    assert read(buffer).tobytes() == b"constant" * 100
    with pytest.raises(PermissionError, match="read-only"):
        buffer.write_from(b"x").get(PATIENCE)


def test_a_mapping_is_lent_from_wherever_it_begins(owner: Owner):
    buffer = owner.lend_mapping.call_one(10_000).get(PATIENCE)

    assert buffer.size() == 9999
    assert read(buffer)[:4].tobytes() == b"ello"


def test_arrays_of_any_shape_and_type_are_memory():
    source = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    target = np.zeros((4, 6), np.float32)

    RDMABuffer(source).read_into(target).get(PATIENCE)

    assert np.array_equal(target.ravel(), source.ravel())


def test_the_same_memory_is_the_same_buffer(owner: Owner):
    data = bytearray(100)
    one, other = RDMABuffer(data), RDMABuffer(data)

    one.drop().get(PATIENCE)

    with pytest.raises(BufferGone):
        other.read_into(bytearray(100)).get(PATIENCE)


# R2, R3


def test_many_buffers_are_read_at_random(owner: Owner):
    buffers = owner.lend_many.call_one(500, 100_000).get(PATIENCE)
    chance = random.Random(1)

    for _ in range(200):
        i = chance.randrange(500)
        assert np.array_equal(read(buffers[i]), pattern(i, 100_000))


def test_sync_and_async_endpoints_and_many_threads_read(owner: Owner, reader: Reader):
    buffer = owner.lend.call_one(3_000_000, 4).get(PATIENCE)
    right = checksum(pattern(4, 3_000_000))
    another = this_host().spawn_procs().spawn("another", Owner)

    assert reader.read.call_one(buffer).get(PATIENCE) == right
    assert another.read_async.call_one(buffer).get(PATIENCE) == right
    assert reader.read_in_threads.call_one(buffer, 10).get(PATIENCE) == [right] * 10


# R4


def test_a_buffer_that_was_dropped_is_gone_for_everybody(owner: Owner, reader: Reader):
    buffer = owner.lend.call_one(1000).get(PATIENCE)
    read(buffer)

    owner.drop.call_one().get(PATIENCE)

    with pytest.raises(BufferGone, match="it was dropped"):
        read(buffer)
    with pytest.raises(BufferGone, match="it was dropped"):
        buffer.write_from(bytes(10)).get(PATIENCE)
    with pytest.raises(Exception, match="it was dropped"):
        reader.read.call_one(buffer).get(PATIENCE)


def test_who_has_a_handle_may_drop_it(owner: Owner):
    buffer = owner.lend.call_one(1000).get(PATIENCE)

    buffer.drop().get(PATIENCE)
    buffer.drop().get(PATIENCE)

    with pytest.raises(BufferGone):
        read(buffer)


@pytest.mark.fault
def test_the_memory_of_the_dead_is_gone_at_once(owner: Owner, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("danaus.actor.unhandled_fault_hook", lambda _failure: None)
    buffer = owner.lend.call_one(5_000_000).get(PATIENCE)
    os.kill(owner.pid.call_one().get(PATIENCE), signal.SIGKILL)
    with pytest.raises(Exception, match="SIGKILL"):
        owner.pid.call_one().get(PATIENCE)

    with pytest.raises(BufferGone, match=r"has ended|was dropped|was freed"):
        read(buffer)


# R5


def test_an_owner_that_holds_the_gil_or_is_stopped_is_read(owner: Owner):
    buffer = owner.lend.call_one(5_000_000, 2).get(PATIENCE)
    pid = owner.pid.call_one().get(PATIENCE)
    right = checksum(pattern(2, 5_000_000))

    busy = owner.hold_the_gil.call_one(3000)
    for _ in range(20):
        assert checksum(read(buffer)) == right
    assert not busy.done
    os.kill(pid, signal.SIGSTOP)
    try:
        assert checksum(read(buffer)) == right
    finally:
        os.kill(pid, signal.SIGCONT)
    busy.get(PATIENCE)


# batches


def test_a_batch_reads_and_writes_more_than_once(owner: Owner):
    buffers = owner.lend_many.call_one(4, 10_000).get(PATIENCE)
    arrays = [np.zeros(10_000, np.uint8) for _ in range(3)]
    action = RDMAAction()
    for buffer, array in zip(buffers, arrays, strict=False):
        action.read_remote(array, buffer)
    action.write_remote(buffers[3], bytes(10_000))

    for _ in range(2):
        action.submit().get(PATIENCE)

    assert all(np.array_equal(array, pattern(i, 10_000)) for i, array in enumerate(arrays))
    assert not read(buffers[3]).any()


def test_a_batch_of_nothing_is_done():
    RDMAAction().submit().get(PATIENCE)


def test_a_batch_fails_with_what_failed_in_it(owner: Owner):
    good, bad = owner.lend_many.call_one(2, 1000).get(PATIENCE)
    bad.drop().get(PATIENCE)
    arrays = [np.zeros(1000, np.uint8) for _ in range(2)]

    future = RDMAAction().read_remote(arrays[0], bad).read_remote(arrays[1], good).submit()

    with pytest.raises(BufferGone):
        future.get(PATIENCE)


def test_batches_refuse_what_does_not_fit(owner: Owner):
    buffer = owner.lend.call_one(100).get(PATIENCE)

    with pytest.raises(ValueError, match="99 bytes"):
        RDMAAction().read_remote(bytearray(99), buffer)
    with pytest.raises(ValueError, match="101 bytes"):
        RDMAAction().write_remote(buffer, bytes(101))
    with pytest.raises(NotImplementedError):
        RDMAAction().fetch_add()


@pytest.fixture
def staged(monkeypatch: pytest.MonkeyPatch) -> None:
    """No kernel that would copy between processes."""
    monkeypatch.setattr("danaus._buffer.cross_memory.is_possible", lambda: False)


def test_where_the_kernel_does_not_copy_the_owner_does(owner: Owner, staged: None):
    buffer = owner.lend.call_one(20_000_001, 6).get(PATIENCE)

    assert buffer.backend == "messages"
    assert np.array_equal(read(buffer), pattern(6, 20_000_001))
    written = pattern(7, 20_000_001)
    buffer.write_from(written).get(PATIENCE)
    assert owner.checksum.call_one().get(PATIENCE) == checksum(written)
    buffer.drop().get(PATIENCE)
    with pytest.raises(Exception, match="it was dropped"):
        read(buffer)
