"""What an actor knows of itself, and how it ends itself."""

from __future__ import annotations

import os
from typing import Any

import pytest

from danaus.actor import (
    MeshFailure,
    SupervisionError,
    context,
    current_actor_name,
    current_rank,
    current_size,
    this_host,
    this_proc,
)
from danaus.testing import wait_until
from tests.integration.endpoint_actors import Counter
from tests.integration.port_actors import Selfaware

PATH = "tests.integration.port_actors.Selfaware me"


@pytest.mark.parametrize("method", ["tell", "tell_async", "tell_concurrent"])
def test_an_actor_knows_its_name_rank_and_place(method: str):
    procs = this_host().spawn_procs(per_host={"hosts": 1, "gpus": 2})
    mesh = procs.spawn("me", Selfaware)
    one = mesh.slice(hosts=0, gpus=1)

    facts = getattr(one, method).call_one().get(10)

    assert (facts["name"], facts["class"]) == ("me", "Selfaware")
    assert facts["rank"] == {"hosts": 0, "gpus": 1}
    assert facts["path"] == f"<root>.<{PATH}{{'hosts': 0/1, 'gpus': 1/2}}>"
    assert facts["actor_name"] == facts["path"]
    assert facts["actor_id"].startswith(facts["proc_id"])
    assert facts["proc_mesh"] == procs
    assert facts["proc"] == procs.slice(hosts=0, gpus=1)
    assert facts["proc"].spawn("there", Counter).add.call_one(1).get(10) == 1


def test_the_message_rank_is_the_place_in_the_mesh_that_was_called():
    mesh = this_host().spawn_procs(per_host={"gpus": 4}).spawn("me", Selfaware)

    whole = mesh.tell.call().get(10)
    part = mesh.slice(gpus=slice(2, 4)).tell.call().get(10)
    one = mesh.slice(gpus=3).tell.call_one().get(10)

    assert [f["sent_to"] for f in whole.values()] == [({"gpus": i}, {"gpus": 4}) for i in range(4)]
    assert [f["sent_to"] for f in part.values()] == [({"gpus": i}, {"gpus": 2}) for i in range(2)]
    assert one["sent_to"] == ({}, {})
    assert one["rank"] == {"gpus": 3}


def test_a_constructor_knows_as_much():
    facts = this_host().spawn_procs().spawn("me", Selfaware).birth.call_one().get(10)

    assert facts["path"] == f"<root>.<{PATH}{{}}>"


def test_an_actor_knows_who_made_it():
    procs = this_host().spawn_procs(per_host={"gpus": 2})
    mesh = procs.spawn("me", Selfaware)

    by_client = mesh.slice(gpus=0).tell.call_one().get(10)["creator"]
    beside = mesh.slice(gpus=1).spawn_beside.call_one().get(10)
    below = mesh.slice(gpus=1).spawn_below.call_one().get(20)

    assert (by_client.name, by_client.creator) == ("root", None)
    assert by_client.proc.spawn("at home", Counter).pid.call_one().get(10) == os.getpid()
    for facts in (beside, below):
        creator = facts["creator"]
        assert (creator.name, creator.class_name) == ("me", "Selfaware")
        assert dict(creator.rank) == {"gpus": 1}
        assert creator.proc_mesh == procs
        assert creator.proc == procs.slice(gpus=1)
        assert creator.creator.name == "root"
        assert facts["path"].startswith(f"<root>.<{PATH}{{'gpus': 1/2}}>.<")


def test_the_client_is_the_root():
    instance = context().actor_instance

    assert repr(instance) == current_actor_name() == "<root>"
    assert instance.name == "root"
    assert (dict(current_rank()), current_size()) == ({}, {})


def test_actors_can_live_in_the_clients_process():
    counter = this_proc().spawn("here", Counter)

    assert counter.pid.call_one().get(10) == os.getpid()
    value = [1]
    assert counter.echo.call_one(value).get(10) == value
    assert counter.echo.call_one(value).get(10) is not value  # arguments are copied, always


@pytest.mark.parametrize(("reason", "text"), [("too hot", "too hot"), (None, "no reason provided")])
def test_an_actor_may_abort_after_its_answer(
    reason: str | None, text: str, failures: list[MeshFailure]
):
    actor: Any = this_host().spawn_procs().spawn("me", Selfaware)

    assert actor.abort.call_one(reason).get(10) == "aborted"

    with pytest.raises(SupervisionError, match=text):
        actor.tell.call_one().get(10)
    wait_until(lambda: any(text in failure.report() for failure in failures))


def test_an_idle_actor_can_be_killed_from_a_thread(failures: list[MeshFailure]):
    actor: Any = this_host().spawn_procs().spawn("me", Selfaware)
    actor.kill_later.call_one().get(10)

    wait_until(lambda: failures)

    with pytest.raises(SupervisionError, match="from another thread"):
        actor.tell.call_one().get(10)


def test_an_actor_may_stop_itself_in_good_order(failures: list[MeshFailure]):
    actor: Any = this_host().spawn_procs().spawn("me", Selfaware)

    assert actor.stop_myself.call_one().get(10) == "stopping"

    with pytest.raises(SupervisionError, match="enough"):
        actor.tell.call_one().get(10)
    assert failures == []


def test_an_actor_itself_is_no_mesh():
    errors = this_host().spawn_procs().spawn("me", Selfaware).mesh_members.call_one().get(10)

    assert len(errors) == 4
    assert all("actor implementations are not meshes" in error for error in errors)


def test_an_actor_has_a_logger_of_its_class():
    actor = this_host().spawn_procs().spawn("me", Selfaware)

    assert actor.logger_name.call_one().get(10) == ("Selfaware", 10)
