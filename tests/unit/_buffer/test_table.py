import os

import pytest

from danaus._buffer import cross_memory
from danaus._buffer.local_memory import LocalMemory
from danaus._buffer.table import SLOT, Table
from danaus._wire import _big

pytestmark = pytest.mark.needs_linux


def read(region_slot: int, key: int, address: int, nbytes: int) -> bytes:
    """As another process would, but of this one."""
    target = bytearray(nbytes)
    memory = LocalMemory(target)
    cross_memory.read(os.getpid(), region_slot, key, address, memory.address, nbytes)
    return bytes(target)


def test_what_is_registered_can_be_read():
    table = Table()
    region = table.register(LocalMemory(bytearray(b"hello")))

    assert read(region.slot, region.key, region.address, 5) == b"hello"


def test_another_key_opens_nothing():
    table = Table()
    region = table.register(LocalMemory(bytearray(b"hello")))

    with pytest.raises(cross_memory.Vanished, match="dropped"):
        read(region.slot, region.key ^ 2, region.address, 5)


def test_what_is_outside_of_the_region_is_not_read():
    table = Table()
    region = table.register(LocalMemory(bytearray(b"hello")))

    with pytest.raises(cross_memory.Vanished, match="not what the handle says"):
        read(region.slot, region.key, region.address, 6)
    with pytest.raises(cross_memory.Vanished, match="not what the handle says"):
        read(region.slot, region.key, region.address - 1, 2)


def test_a_slot_that_is_used_again_has_another_key():
    table = Table()
    first = table.register(LocalMemory(bytearray(b"first")))
    table.drop(first.key)

    second = table.register(LocalMemory(bytearray(b"other")))

    assert second.slot == first.slot
    with pytest.raises(cross_memory.Vanished):
        read(first.slot, first.key, first.address, 5)


def test_a_region_is_dropped_once():
    table = Table()
    region = table.register(LocalMemory(bytearray(3)))

    assert table.drop(region.key)
    assert not table.drop(region.key)
    assert table.find(region.key) is None
    assert len(table) == 0


def test_there_is_room_for_any_number_of_regions():
    table = Table()
    memories = [bytearray(1) for _ in range(5000)]

    regions = [table.register(LocalMemory(memory)) for memory in memories]

    assert len({region.slot for region in regions}) == 5000
    assert all(region.slot % SLOT.size == 0 for region in regions)


def test_memory_that_is_read_only_is_not_written():
    table = Table()
    region = table.register(LocalMemory(b"constant"))
    source = LocalMemory(b"x")

    with pytest.raises(PermissionError):
        cross_memory.write(os.getpid(), region.slot, region.key, region.address, source.address, 1)


def test_a_process_that_is_not_there_has_no_memory():
    with pytest.raises(cross_memory.Vanished, match="has ended"):
        cross_memory.read(2**22 - 1, 4096, 1, 4096, LocalMemory(bytearray(1)).address, 1)


def test_that_memory_is_looked_at_leaves_large_messages_as_they_are():
    # Both declare the same functions of the interpreter; they must not share the declarations.
    data = bytearray(b"x" * 300_000)

    memory = LocalMemory(data)

    assert _big._address_of(data) == memory.address
