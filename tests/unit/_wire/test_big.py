import mmap
import os
import pickle
from collections.abc import Generator
from typing import Any, NamedTuple

import pytest

from danaus._wire import _big
from danaus._wire._big import lift, set_threshold, threshold

LARGE = bytes(range(100))


@pytest.fixture(autouse=True)
def small_threshold() -> Generator[None]:
    before = threshold()
    set_threshold(100)
    yield
    set_threshold(before)


def through(value: object) -> tuple[Any, int]:
    """A value that was lifted, pickled and rebuilt, and how many buffers stayed outside."""
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(lift(value), 5, buffer_callback=buffers.append)
    received = [bytearray(buffer.raw()) for buffer in buffers]
    return pickle.loads(pickled, buffers=received), len(buffers)


@pytest.mark.parametrize("value", [1, "text" * 100, bytes(99), (bytes(99),), [], {}, [[1]]])
def test_a_value_without_large_bytes_is_left_alone(value: object):
    assert lift(value) is value


@pytest.mark.parametrize(
    "value",
    [
        LARGE,
        bytearray(LARGE),
        (1, LARGE),
        [LARGE, [LARGE]],
        {"a": {"b": [bytearray(LARGE)]}},
        ((LARGE, 1), {"key": bytearray(LARGE)}),
    ],
)
def test_large_bytes_travel_outside_the_pickle_and_come_back(value: object):
    copy, buffers = through(value)

    assert copy == value
    assert repr(copy) == repr(value)
    assert buffers > 0


def test_containers_are_not_changed_and_only_rebuilt_where_needed():
    small, large = [1], [LARGE]
    value = (small, large)

    lifted = lift(value)

    assert lifted[0] is small
    assert lifted[1] is not large
    assert value == ([1], [LARGE])
    assert large[0] is LARGE


class Named(NamedTuple):
    data: bytes


class Subclass(bytes):
    pass


@pytest.mark.parametrize(
    "value",
    [Named(LARGE), Subclass(LARGE), [[[[LARGE]]]], [LARGE] * 65],
    ids=["a named tuple", "a subclass", "deep", "wide"],
)
def test_what_is_no_plain_container_or_deep_or_wide_is_left_alone(value: object):
    assert lift(value) is value


def test_what_occurs_twice_is_sent_once_and_stays_one_object():
    shared = [LARGE]

    copy, buffers = through({"first": shared, "second": (shared, LARGE)})

    assert buffers == 1
    assert copy["first"] is copy["second"][0]
    assert copy["first"][0] is copy["second"][1]


def test_a_list_that_holds_itself_still_does():
    value: list[Any] = [LARGE]
    value.append(value)

    copy, _ = through(value)

    assert copy[1] is copy
    assert copy[0] == LARGE


def test_a_dict_that_holds_itself_still_does():
    value: dict[str, Any] = {"data": LARGE}
    value["self"] = value

    copy, _ = through(value)

    assert copy["self"] is copy


@pytest.mark.needs_linux
@pytest.mark.parametrize("kind", [bytes, bytearray])
@pytest.mark.parametrize("nbytes", [4096, 4097, 3 * 4096 - 1, 10 * 4096 + 5])
def test_what_lies_in_shared_memory_is_copied_out_piece_by_piece(
    kind: type, nbytes: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(_big, "_PIECE", 4096)
    data = (bytes(range(251)) * (nbytes // 251 + 1))[:nbytes]
    pickled = pickle.dumps(lift(kind(data)), 5, buffer_callback=lambda _: False)
    fd = os.memfd_create("test")
    os.pwrite(fd, b"before" + data, 4096 - 6)
    with mmap.mmap(fd, 4096 + nbytes, flags=mmap.MAP_PRIVATE) as memory:
        os.close(fd)
        view = memoryview(memory)[4096:]
        copy = pickle.loads(pickled, buffers=[view])
        before = memory[4090:4096]
        view.release()

    assert copy == data
    assert type(copy) is kind
    assert before == b"before"


@pytest.mark.needs_linux
def test_the_memory_behind_is_given_back(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_big, "_PIECE", 4096)
    nbytes = 64 * 4096
    pickled = pickle.dumps(lift(bytes(nbytes)), 5, buffer_callback=lambda _: False)
    with mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory[:] = b"x" * nbytes
        view = memoryview(memory)

        copy = pickle.loads(pickled, buffers=[view])

        # Anonymous pages that were given back read as zeros.
        assert memory[:] == bytes(nbytes)
        view.release()
    assert copy == b"x" * nbytes
