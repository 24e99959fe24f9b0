import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danaus._runtime.endpoints import EndpointProperty, Signature, endpoint_of, is_async_method


def plain(self: Any, a: int, b: int = 2) -> None: ...
def nothing(self: Any) -> None: ...
def positional(self: Any, a: int, /, b: int) -> None: ...
def many(self: Any, *rest: int) -> None: ...
def named(self: Any, *, key: int, other: int = 1) -> None: ...
def anything(self: Any, *args: Any, **kwargs: Any) -> None: ...
def mixed(self: Any, a: int, *rest: int, key: int = 0, **more: int) -> None: ...
def all_in_one(*args: Any) -> None: ...
def all_in_two(*args: Any, **kwargs: Any) -> None: ...


METHODS = [
    plain,
    nothing,
    positional,
    many,
    named,
    anything,
    mixed,
    all_in_one,
    all_in_two,
]


def outcome(call: Callable[[], object]) -> str:
    try:
        call()
    except TypeError:
        return "refused"
    return "taken"


@given(
    st.sampled_from(METHODS),
    st.lists(st.just(1), max_size=4).map(tuple),
    st.dictionaries(st.sampled_from(["a", "b", "key", "other", "x"]), st.just(1), max_size=3),
)
def test_arguments_are_taken_exactly_if_a_local_call_takes_them(
    method: Callable[..., None], args: tuple[int, ...], kwargs: dict[str, int]
):
    signature = Signature(method, 1)

    here = outcome(lambda: method(None, *args, **kwargs))

    assert outcome(lambda: signature.check(args, kwargs)) == here


def test_a_refusal_names_the_endpoint_what_it_takes_and_what_is_wrong():
    with pytest.raises(TypeError, match=r"endpoint plain\(a.*b.*= 2\).*: missing .* 'a'"):
        Signature(plain, 1).check((), {})
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'c'"):
        Signature(plain, 1).check((1,), {"c": 1})


def with_port(self: Any, port: Any, a: int) -> None: ...


def test_the_response_port_is_not_the_callers_to_give():
    signature = Signature(with_port, 2)

    signature.check((1,), {})
    with pytest.raises(TypeError, match="too many positional arguments"):
        signature.check((1, 2), {})


def test_what_has_no_signature_takes_anything():
    Signature(int.__add__.__call__, 1).check((1, 2, 3), {"x": 1})
    signature = Signature(dict.update, 1)

    signature.check((), {"anything": 1})


def test_a_wrapped_method_is_checked_as_what_it_wraps():
    @functools.wraps(plain)
    def wrapper(*args: Any, **kwargs: Any) -> None: ...

    with pytest.raises(TypeError, match="missing"):
        Signature(wrapper, 1).check((), {})


class Thing:
    @EndpointProperty
    def marked(self, a: int) -> int:
        """Says something."""
        return a + 1

    def unmarked(self) -> None: ...

    field = 3


class Derived(Thing):
    @EndpointProperty
    async def more(self) -> None: ...


class Hides(Thing):
    marked = None  # type: ignore[assignment]


def test_an_endpoint_of_a_class_is_found_also_in_what_derives_from_it():
    found = endpoint_of(Thing, "marked")

    assert isinstance(found, EndpointProperty)
    assert endpoint_of(Derived, "marked") is found
    assert endpoint_of(Derived, "more") is not None


@pytest.mark.parametrize(
    ("cls", "name"),
    [(Thing, "unmarked"), (Thing, "field"), (Thing, "missing"), (Hides, "marked")],
)
def test_what_is_not_marked_is_no_endpoint(cls: type, name: str):
    assert endpoint_of(cls, name) is None


def test_an_endpoint_is_the_plain_method_of_an_instance():
    assert Thing().marked(1) == 2
    assert inspect.ismethod(Thing().marked)


def test_an_endpoint_of_a_class_can_be_called_and_read():
    assert Thing.marked(Thing(), 1) == 2
    assert Thing.marked.__doc__ == "Says something."
    assert Thing.marked.__name__ == "marked"
    assert inspect.signature(Thing.marked).parameters.keys() == {"self", "a"}


def test_an_endpoint_has_the_name_under_which_it_stands():
    class Renamed:
        other = EndpointProperty(plain)

    assert Renamed.other.__name__ == "other"


async def coroutine() -> None: ...
async def generator() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("method", "is_async"),
    [
        (coroutine, True),
        (plain, False),
        (generator, False),
        (functools.partial(coroutine), True),
        (functools.partial(plain), False),
        (len, False),
        (Thing().marked, False),
    ],
)
def test_coroutine_functions_are_async(method: Any, is_async: bool):
    assert is_async_method(method) is is_async
