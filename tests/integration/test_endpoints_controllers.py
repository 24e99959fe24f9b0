"""Controllers: one a job, in the client's process, for everybody."""

from __future__ import annotations

import asyncio
import os

import pytest

from danaus.actor import ActorError, SupervisionError, get_or_spawn_controller, this_host
from tests.integration.endpoint_actors import Chained, Delegating, Store


@pytest.fixture(autouse=True)
def no_constructions_yet() -> None:
    Store.constructions = 0


async def test_concurrent_first_calls_construct_it_once_in_the_clients_process():
    stores = await asyncio.gather(*(get_or_spawn_controller("store", Store) for _ in range(8)))

    facts = {await store.facts.call_one() for store in stores}

    assert len(facts) == 1
    pid, _, constructions = facts.pop()
    assert pid == os.getpid()
    assert constructions == 1


def test_actors_of_other_processes_reach_the_same_one():
    store = get_or_spawn_controller("store", Store, 1).get(10)
    delegating = this_host().spawn_procs(per_host={"gpus": 2}).spawn("d", Delegating)

    delegating.add.call("store", 10).get(10)

    assert store.add.call_one(100).get(10) == 121
    facts = delegating.facts.call("store").get(10)
    assert {pid for pid, _, _ in facts.values()} == {os.getpid()}


def test_an_actor_may_be_the_first_to_ask():
    delegating = this_host().spawn_procs().spawn("d", Delegating)

    assert delegating.add.call_one("store", 5).get(10) == 5
    assert get_or_spawn_controller("store", Store).get(10).add.call_one(1).get(10) == 6


def test_an_actor_spawned_on_a_mesh_that_was_received_reaches_it():
    store = get_or_spawn_controller("store", Store).get(10)
    procs = this_host().spawn_procs()
    delegating = this_host().spawn_procs().spawn("d", Delegating)

    delegating.spawn_and_add.call_one(procs, "store", 3).get(10)

    assert store.add.call_one(1).get(10) == 4


def test_names_are_different_controllers():
    one = get_or_spawn_controller("one", Store).get(10)
    two = get_or_spawn_controller("two", Store).get(10)

    one.add.call_one(1).get(10)

    assert two.add.call_one(0).get(10) == 0


def test_a_constructor_may_ask_for_another_controller():
    assert get_or_spawn_controller("above", Chained).get(10).add.call_one(1).get(10) == 11


def test_a_constructor_that_raises_fails_every_call_in_the_same_way():
    for _ in range(2):
        with pytest.raises(ActorError, match=r"Failure on store: .*OSError: no disk") as raised:
            get_or_spawn_controller("store", Store, fail="no disk").get(10)
        assert isinstance(raised.value, ValueError)

    delegating = this_host().spawn_procs().spawn("d", Delegating)
    with pytest.raises(ValueError, match=r"Failure on store: .*no disk"):
        delegating.fail.call_one("store").get(10)
    assert Store.constructions == 1


def test_one_that_has_died_is_made_again_and_the_others_live_on():
    """S8: two controllers; one crashes."""
    broken = get_or_spawn_controller("broken", Store).get(10)
    sound = get_or_spawn_controller("sound", Store).get(10)

    with pytest.raises(SupervisionError, match="told to"):
        broken.die.call_one().get(10)

    assert sound.add.call_one(1).get(10) == 1
    assert get_or_spawn_controller("broken", Store).get(10).add.call_one(2).get(10) == 2
