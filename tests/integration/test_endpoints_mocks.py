"""Other classes in the place of actor classes."""

from __future__ import annotations

from typing import Any

import pytest

from danaus.actor import get_actor_class, patch_actor, this_host
from tests.integration.endpoint_actors import FakeLoader, Loader, OtherFakeLoader, Program


def load() -> str:
    """What the program does."""
    return this_host().spawn_procs().spawn("loader", Loader).load.call_one().get(10)


@patch_actor(Loader, OtherFakeLoader)
def raise_class() -> None:
    """Raise an error with the name of what would be spawned."""
    raise KeyError(get_actor_class(Loader).__name__)


def test_the_replacement_is_spawned_as_long_as_it_is_in_force():
    with patch_actor(Loader, FakeLoader):
        assert get_actor_class(Loader) is FakeLoader
        assert load() == "fake"
    assert get_actor_class(Loader) is Loader
    assert load() == "real"


def test_replacements_nest_and_end_with_an_exception():
    with patch_actor(Loader, FakeLoader):
        with pytest.raises(KeyError, match="OtherFakeLoader"):
            raise_class()
        assert get_actor_class(Loader) is FakeLoader
    assert get_actor_class(Loader) is Loader


async def test_it_decorates_and_surrounds_async_code():
    @patch_actor(Loader, FakeLoader)
    async def decorated() -> type[Any]:
        return get_actor_class(Loader)

    @patch_actor(Loader, OtherFakeLoader)
    def plain() -> type[Any]:
        return get_actor_class(Loader)

    assert await decorated() is FakeLoader
    assert plain() is OtherFakeLoader
    async with patch_actor(Loader, FakeLoader):
        assert get_actor_class(Loader) is FakeLoader
    assert get_actor_class(Loader) is Loader


def test_what_is_spawned_meanwhile_has_it_too_with_all_that_it_spawns():
    with patch_actor(Loader, FakeLoader):
        program = this_host().spawn_procs().spawn("program", Program)
        assert program.load_here.call_one().get(10) == "fake"
    assert program.load_below.call_one().get(10) == "fake"
    assert load() == "real"


@pytest.mark.parametrize(("original", "mock"), [(Loader, int), (Loader, Loader()), ("x", Loader)])
def test_what_is_no_actor_class_is_refused(original: Any, mock: Any):
    with pytest.raises(ValueError, match="patch_actor replaces an Actor class by another"):
        patch_actor(original, mock)
