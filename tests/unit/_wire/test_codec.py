import collections
import copyreg
import sys
import threading
import types
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import cloudpickle
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from danaus._wire.codec import (
    copy_parts,
    dumps,
    dumps_call,
    loads,
    parts_size,
    set_threshold,
    threshold,
)
from danaus.errors import SerializationError

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(max_size=60)
    | st.binary(max_size=60).map(bytearray),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.fixture
def small_threshold() -> Generator[int]:
    """Buffers of 16 bytes and more stay out of the pickle."""
    before = threshold()
    set_threshold(16)
    yield 16
    set_threshold(before)


@pytest.fixture
def main_class() -> type:
    """A class of ``__main__`` that the receiver's ``__main__`` would not have."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec("class OfScript:\n    def hi(self):\n        return 'hi'\n", namespace)
    return namespace["OfScript"]


def same_types(left: object, right: object) -> bool:
    """Whether two equal values are also of the same types: True == 1, b"" == bytearray()."""
    if type(left) is not type(right):
        return False
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return all(map(same_types, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return all(map(same_types, left.values(), right.values()))
    return True


@given(values)
def test_values_come_back_as_they_were(value: object):
    copy = loads(dumps(value))

    assert copy == value
    assert same_types(copy, value)


@given(values, st.integers(1, 40))
def test_values_come_back_as_they_were_when_much_of_them_is_out_of_band(value: object, least: int):
    before = threshold()
    set_threshold(least)
    try:
        copy = loads(dumps(value))
    finally:
        set_threshold(before)

    assert copy == value
    assert same_types(copy, value)


@given(st.lists(values, max_size=3), st.dictionaries(st.text(max_size=3), values, max_size=3))
def test_arguments_come_back_as_they_were(args: list[object], kwargs: dict[str, object]):
    copy = loads(dumps_call(tuple(args), kwargs))

    assert copy == (tuple(args), kwargs)
    assert same_types(copy, (tuple(args), kwargs))


@pytest.mark.parametrize("args", [(), (1,), (1, 2.5, True, None), (10**400,), (-1, "text")])
def test_the_short_cut_for_plain_arguments_gives_what_the_long_way_gives(args: tuple[Any, ...]):
    short, long = loads(dumps_call(args, {})), loads(dumps((args, {})))

    assert short == long == (args, {})
    assert same_types(short, long)


def test_what_is_pickled_stays_the_callers():
    value = {"list": [1, bytes(20)], "array": bytearray(20)}
    before = {"list": [1, bytes(20)], "array": bytearray(20)}

    dumps(value)

    assert value == before
    assert type(value["list"][1]) is bytes


@pytest.mark.parametrize(("nbytes", "parts"), [(15, 1), (16, 2), (17, 2)])
@pytest.mark.usefixtures("small_threshold")
def test_a_buffer_is_out_of_band_from_the_threshold_on(nbytes: int, parts: int):
    assert len(dumps(np.zeros(nbytes, np.uint8))) == parts
    assert len(dumps([bytes(nbytes)])) == parts


@pytest.mark.usefixtures("small_threshold")
def test_an_array_is_not_copied_by_its_sender():
    array = np.arange(100)

    assert np.shares_memory(np.frombuffer(dumps(array)[1], array.dtype), array)


@pytest.mark.usefixtures("small_threshold")
def test_an_array_lies_in_the_received_memory_and_can_be_written():
    pickled, data = dumps(np.arange(100))
    received = bytearray(data)

    array = loads([pickled, received])
    array[0] = 7

    assert np.frombuffer(received, array.dtype)[0] == 7


@pytest.mark.usefixtures("small_threshold")
def test_arrays_keep_shape_type_order_and_protection():
    fixed = np.arange(30.0)
    fixed.flags.writeable = False
    arrays = [
        np.arange(60, dtype=np.int16).reshape(3, 4, 5),
        np.asfortranarray(np.arange(30.0).reshape(5, 6)),
        np.arange(60)[::3],
        np.array(["a", None, (1,)], dtype=object),
        np.zeros((4, 0)),
        fixed,
    ]

    copies = loads(copy_parts(dumps(arrays)))

    for array, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(array, copy)
        assert array.dtype == copy.dtype
        assert array.flags.f_contiguous == copy.flags.f_contiguous or array.ndim == 1
    assert not copies[-1].flags.writeable


@pytest.mark.usefixtures("small_threshold")
def test_copied_parts_share_no_memory_with_the_sender():
    array = np.arange(100)

    copy = loads(copy_parts(dumps([array, bytes(50)])))[0]
    array[:] = 0

    assert copy[99] == 99


@pytest.mark.usefixtures("small_threshold")
def test_the_size_of_parts_is_in_bytes_whatever_their_items_are():
    array = np.zeros((10, 10))
    parts = dumps(array)

    assert parts_size(parts) == len(parts[0]) + 800
    assert parts_size([array.data, b"abc"]) == 803


def test_an_object_of_a_module_travels_by_reference():
    assert loads(dumps(collections.OrderedDict)) is collections.OrderedDict
    assert b"OrderedDict" in bytes(dumps(collections.OrderedDict)[0])


def test_a_class_of_main_travels_by_value(main_class: type):
    parts = dumps(main_class())

    instance = loads(parts)

    assert b"hi" in bytes(parts[0])
    assert instance.hi() == "hi"
    assert type(instance).__name__ == "OfScript"


def test_a_class_of_main_that_comes_back_is_the_same_class(main_class: type):
    assert type(loads(dumps(main_class()))) is main_class


def test_a_function_within_a_function_travels_by_value():
    step = 3

    def later(value: int) -> int:
        return value + step

    assert loads(dumps({"callback": later}))["callback"](4) == 7


def test_a_module_that_was_registered_travels_by_value(monkeypatch: pytest.MonkeyPatch):
    module = types.ModuleType("module_of_the_client_only")
    exec("def answer():\n    return 42\n", module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    cloudpickle.register_pickle_by_value(module)
    try:
        parts = dumps(module.answer)
    finally:
        cloudpickle.unregister_pickle_by_value(module)
    monkeypatch.delitem(sys.modules, module.__name__)

    assert loads(parts)() == 42


@pytest.mark.usefixtures("small_threshold")
def test_what_plain_pickle_left_half_done_is_not_sent_twice():
    # The plain pickler meets the array first and the function, which it cannot pickle, second.
    value = [np.arange(100), lambda: 1]

    parts = dumps(value)

    assert len(parts) == 2
    np.testing.assert_array_equal(loads(parts)[0], value[0])


def test_the_word_main_in_a_text_does_no_harm():
    assert loads(dumps(["__main__", 1])) == ["__main__", 1]


def test_a_value_that_cannot_be_pickled_is_an_error_that_names_its_place():
    with pytest.raises(
        SerializationError, match=r"cannot send a lock at \['locks'\]\[1\]: "
    ) as got:
        dumps({"locks": [1, threading.Lock()]})

    assert isinstance(got.value, TypeError)
    assert isinstance(got.value.__cause__, TypeError)


@pytest.mark.parametrize(
    ("args", "kwargs", "place"),
    [
        ((1, threading.Lock()), {}, "cannot send a lock as argument 2: "),
        ((1,), {"key": (threading.Lock(),)}, r"cannot send a lock at \[0\] of argument 'key': "),
    ],
)
def test_an_argument_that_cannot_be_pickled_is_an_error_that_names_it(
    args: tuple[Any, ...], kwargs: dict[str, Any], place: str
):
    with pytest.raises(SerializationError, match=place):
        dumps_call(args, kwargs)


def test_a_value_nested_without_end_is_an_error():
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]

    with pytest.raises(SerializationError, match="recursion"):
        dumps(nested)


class Interrupted:
    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def __reduce__(self) -> Any:
        raise self.error


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interruption_while_pickling_is_no_error_of_the_value(error: type[BaseException]):
    with pytest.raises(error):
        dumps(Interrupted(error))


@pytest.mark.parametrize("error", [ValueError, GeneratorExit])
def test_whatever_a_reduce_raises_is_an_error_of_the_value(error: type[BaseException]):
    with pytest.raises(SerializationError, match=f"cannot send a Interrupted.*{error.__name__}"):
        dumps([Interrupted(error)])


@dataclass
class Registered:
    text: str


def test_reducers_that_the_program_registered_are_used(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(
        copyreg.dispatch_table, Registered, lambda value: (Registered, (value.text.upper(),))
    )

    assert loads(dumps(Registered("a"))) == Registered("A")
    assert loads(dumps([Registered("a"), lambda: 1]))[0] == Registered("A")


@pytest.mark.parametrize("value", [None, 1, True, 2.5, "text"])
def test_small_values_are_one_part(value: object):
    assert len(dumps(value)) == 1
    assert loads(dumps(value)) == value
