import dataclasses
from typing import Any

import pytest

from danaus._core import supervision
from danaus._core.history import InvariantBroken
from danaus._core.supervision import (
    ActorStarted,
    AskOwner,
    EscalateToRoot,
    FailCallers,
    Failed,
    FailOwner,
    Failure,
    Handled,
    MeshCreated,
    OwnerGone,
    Respawned,
    StopOwned,
    Stopped,
    Supervision,
    SupervisionEvent,
)


def machine(*events: SupervisionEvent, root: str = "") -> Supervision:
    """A process with an actor ``boss`` that owns ``procs`` and, on them, ``workers``."""
    made = Supervision("p", root=root)
    for event in (
        ActorStarted(actor="boss", mesh="bosses", rank=2, owner="elsewhere"),
        MeshCreated(mesh="procs", owner="boss"),
        MeshCreated(mesh="workers", owner="boss", on="procs"),
        *events,
    ):
        made.handle(event, 0.0)
    made.check()
    return made


def client(*events: SupervisionEvent) -> Supervision:
    """The client, whose root actor owns ``procs`` and, on them, ``workers`` and ``loggers``."""
    made = Supervision("client", root="root")
    for event in (
        MeshCreated(mesh="procs", owner="root"),
        MeshCreated(mesh="workers", owner="root", on="procs"),
        MeshCreated(mesh="loggers", owner="root", on="procs"),
        *events,
    ):
        made.handle(event, 0.0)
    return made


def failed(node: str = "workers", rank: int = 0, **fields: Any) -> Failed:
    return Failed(node=node, rank=rank, **{"report": "killed", "cause": "proc 1", **fields})


def failure(failure_id: int = 1, mesh: str = "workers", **fields: Any) -> Failure:
    defaults = {"rank": 0, "report": "killed", "cause": "proc 1"}
    return Failure(failure_id=failure_id, mesh=mesh, **{**defaults, **fields})


def stopped(mesh: str, reason: str) -> FailCallers:
    news = failure(0, mesh, rank=None, report=reason, cause="stop")
    return FailCallers(mesh=mesh, rank=None, failure=news)


def ask(*args: Any, **fields: Any) -> AskOwner:
    return AskOwner(owner="boss", failure=failure(*args, **fields))


def callers(asked: AskOwner | EscalateToRoot) -> FailCallers:
    news = asked.failure
    return FailCallers(mesh=news.mesh, rank=news.rank, failure=news)


def test_a_failed_rank_fails_its_callers_and_is_reported_to_the_owner():
    boss = machine()

    assert boss.handle(failed(), 0.0) == [callers(ask()), ask()]
    assert boss.statistics().failed_ranks == 1
    assert boss.statistics().asked == 1


def test_a_rank_is_reported_once():
    boss = machine(failed())

    assert boss.handle(failed(cause="proc 2"), 0.0) == []


def test_each_rank_is_reported_by_itself():
    boss = machine(failed())

    assert boss.handle(failed(rank=3), 0.0)[-1] == ask(2, rank=3)


def test_a_failure_that_the_owner_handles_ends_there():
    boss = machine(failed())

    assert boss.handle(Handled(failure_id=1, handled=True), 0.0) == []
    assert boss.statistics().asked == 0
    health = boss.health("workers")
    assert health
    assert health.failure_of((0,)) == failure()


def test_an_owner_that_does_not_handle_a_failure_fails_with_all_that_it_owns():
    boss = machine(failed())

    commands = boss.handle(Handled(failure_id=1, handled=False, raised="ValueError: no"), 0.0)

    assert commands == [
        FailOwner(owner="boss", failure=failure(raised="ValueError: no"), reported=False),
        stopped("workers", "it failed"),
        stopped("procs", "it failed"),
        StopOwned(owner="boss", meshes=("workers", "procs"), actors=(), reason="it failed"),
    ]
    assert boss.statistics().actors == 0
    assert boss.statistics().meshes == 0


def test_a_failure_goes_up_to_an_owner_in_the_same_process():
    boss = machine(
        ActorStarted(actor="chief", mesh="chiefs", rank=0, owner="elsewhere"),
        MeshCreated(mesh="bosses", owner="chief"),
        failed(),
    )

    commands = boss.handle(Handled(failure_id=1, handled=False), 0.0)

    upward = failure(2, "bosses", rank=2, origin=failure())
    assert commands[0] == FailOwner(owner="boss", failure=failure(), reported=True)
    assert commands[-1] == AskOwner(owner="chief", failure=upward)


def test_an_unhandled_failure_reaches_the_root():
    boss = machine(MeshCreated(mesh="bosses", owner="root"), failed(), root="root")

    commands = boss.handle(Handled(failure_id=1, handled=False), 0.0)

    upward = failure(2, "bosses", rank=2, origin=failure())
    assert commands[-1] == EscalateToRoot(failure=upward)


def test_the_root_is_told_and_not_asked():
    told = EscalateToRoot(failure=failure())

    assert client().handle(failed(), 0.0) == [callers(told), told]


def test_a_dead_proc_takes_all_its_actors_with_it_and_is_one_fault():
    commands = client().handle(failed("procs", 1), 0.0)

    dead = [(c.mesh, c.rank) for c in commands if isinstance(c, FailCallers)]
    assert dead == [("procs", 1), ("workers", 1), ("loggers", 1)]
    assert [c.failure.mesh for c in commands if isinstance(c, EscalateToRoot)] == ["workers"]


def test_two_dead_procs_are_two_faults():
    root = client(failed("procs", 1))

    commands = root.handle(failed("procs", 2, cause="proc 2"), 0.0)

    assert [type(command) for command in commands].count(EscalateToRoot) == 1


def test_the_owner_of_a_dead_proc_hears_of_the_actors_only():
    commands = machine().handle(failed("procs", 1), 0.0)

    asked = [command.failure.mesh for command in commands if isinstance(command, AskOwner)]
    assert asked == ["workers"]


def test_the_owner_of_procs_hears_of_them_when_others_live_there():
    boss = machine(
        ActorStarted(actor="guest", mesh="guests", rank=0, owner="elsewhere"),
        MeshCreated(mesh="lodgers", owner="guest", on="procs"),
        Stopped(mesh="workers", reason="done"),
    )

    commands = boss.handle(failed("procs", 1), 0.0)

    asked = [(c.owner, c.failure.mesh) for c in commands if isinstance(c, AskOwner)]
    assert asked == [("guest", "lodgers"), ("boss", "procs")]


def test_a_proc_is_reported_when_its_actors_had_failed_before():
    boss = machine(failed("workers", 1, cause="actor 1"))

    commands = boss.handle(failed("procs", 1), 0.0)

    assert commands[-1] == ask(2, "procs", rank=1)


def test_a_mesh_on_a_slice_maps_the_ranks_of_its_procs():
    boss = machine(MeshCreated(mesh="few", owner="boss", on="procs", on_ranks=(4, 6)))

    commands = boss.handle(failed("procs", 6), 0.0)

    dead = [(c.mesh, c.rank) for c in commands if isinstance(c, FailCallers)]
    assert dead == [("procs", 6), ("workers", 6), ("few", 1)]


def test_a_failure_from_another_process_keeps_its_origin():
    origin = failure(9, "far", raised="KeyError: 'x'")

    commands = machine().handle(failed(origin=origin), 0.0)

    assert commands[-1] == ask(origin=origin)


def test_the_end_of_a_stopped_mesh_is_no_failure():
    boss = machine(Stopped(mesh="workers", reason="done"))

    assert boss.handle(failed(), 0.0) == []
    assert boss.health("workers") is None


def test_stopping_procs_stops_the_actors_on_them():
    boss = machine()
    health = boss.health("workers")

    assert boss.handle(Stopped(mesh="procs", reason="done"), 0.0) == [
        stopped("workers", "done"),
        stopped("procs", "done"),
    ]
    assert health
    assert health.stopped
    assert boss.handle(Stopped(mesh="procs", reason="again"), 0.0) == []


def test_an_owner_may_stop_the_mesh_that_it_is_asked_about():
    boss = machine(failed(), Stopped(mesh="workers", reason="too many"))

    commands = boss.handle(Handled(failure_id=1, handled=False), 0.0)

    assert commands[0] == FailOwner(owner="boss", failure=failure(), reported=False)


def test_what_a_gone_owner_owned_is_stopped_and_its_answers_are_void():
    boss = machine(failed())

    commands = boss.handle(OwnerGone(owner="boss", reason="stopped"), 0.0)

    assert commands[-1] == StopOwned(
        owner="boss", meshes=("workers", "procs"), actors=(), reason="stopped"
    )
    assert boss.handle(Handled(failure_id=1, handled=False), 0.0) == []
    assert boss.handle(OwnerGone(owner="boss", reason="stopped"), 0.0) == []


def test_an_actor_goes_with_an_owner_in_another_process_deepest_first():
    boss = machine()

    commands = boss.handle(OwnerGone(owner="elsewhere", reason="its process died"), 0.0)

    assert [command for command in commands if isinstance(command, StopOwned)] == [
        StopOwned(owner="boss", meshes=("workers", "procs"), actors=(), reason="its process died"),
        StopOwned(owner="elsewhere", meshes=(), actors=("boss",), reason="its process died"),
    ]


def test_a_mesh_that_is_born_after_its_owners_death_is_stopped():
    boss = machine(OwnerGone(owner="ghost", reason="killed"))

    commands = boss.handle(MeshCreated(mesh="late", owner="ghost"), 0.0)

    assert commands[-1] == StopOwned(
        owner="ghost", meshes=("late",), actors=(), reason="its owner is gone"
    )


def test_an_owner_that_was_never_announced_is_asked_and_fails_like_any_other():
    stranger = machine(MeshCreated(mesh="own", owner="stranger"))

    asked = stranger.handle(failed("own"), 0.0)
    commands = stranger.handle(Handled(failure_id=1, handled=False), 0.0)

    assert asked[-1] == AskOwner(owner="stranger", failure=failure(mesh="own"))
    assert commands[0] == FailOwner(owner="stranger", failure=failure(mesh="own"), reported=False)
    assert commands[-1] == StopOwned(
        owner="stranger", meshes=("own",), actors=(), reason="it failed"
    )


def test_a_respawned_rank_can_fail_again():
    boss = machine(failed(), Respawned(mesh="workers", rank=0))

    assert boss.statistics().failed_ranks == 0
    assert boss.handle(failed(cause="proc 2"), 0.0)[-1] == ask(2, cause="proc 2")


def test_a_late_report_of_its_former_death_is_no_news_of_a_respawned_rank():
    boss = machine(failed(), Respawned(mesh="workers", rank=0))

    assert boss.handle(failed(), 0.0) == []


def test_respawning_a_rank_that_lives_or_a_mesh_that_is_unknown_does_nothing():
    boss = machine(Respawned(mesh="workers", rank=0), Respawned(mesh="unknown", rank=0))

    assert boss.handle(failed(), 0.0) == [callers(ask()), ask()]


def test_a_failure_of_an_unknown_mesh_means_nothing():
    assert machine().handle(failed("unknown"), 0.0) == []


def test_statistics_and_repr_count_what_is_known():
    boss = machine()

    assert boss.statistics() == (1, 2, 0, 0)
    assert repr(boss) == "<Supervision 1 actors, 2 meshes>"


def test_an_unknown_event_is_refused():
    with pytest.raises(AssertionError):
        machine().handle("nonsense", 0.0)  # pyright: ignore[reportArgumentType]  # the point


@pytest.mark.parametrize("damage", ["owner", "stopped", "mixed up", "dead", "root"])
def test_check_finds_a_damaged_machine(damage: str):
    boss = machine(failed(), root="root")

    if damage == "owner":
        boss._meshes["procs"].owner = "ghost"
    elif damage == "stopped":
        boss._meshes["procs"].health.stop(failure())
    elif damage == "mixed up":
        boss._meshes["procs"].health.fail(0, failure())
    elif damage == "dead":
        boss._asked[7] = ("ghost", failure())
    else:
        boss._asked[7] = ("root", failure())

    with pytest.raises(InvariantBroken, match="supervision of 'p'"):
        boss.check()


@pytest.mark.parametrize(
    "kind",
    [
        kind
        for name in supervision.__all__
        if dataclasses.is_dataclass(kind := getattr(supervision, name))
    ],
)
def test_events_and_commands_are_frozen_values_without_a_dict(kind: Any):
    value = kind(**{field.name: 0 for field in dataclasses.fields(kind)})

    assert kind.__dataclass_params__.frozen
    assert not hasattr(value, "__dict__")
