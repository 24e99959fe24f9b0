"""Deaths of processes: who is told, how fast, and with which words."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from danaus.actor import ActorError, BootstrapCommand, MeshFailure, SupervisionError, this_host
from danaus.config import configured
from danaus.testing import wait_until
from tests.fault.conftest import Faults
from tests.fault.victims import DiesAtBirth, Relay, Victim, close_sockets


def failure_of(error: SupervisionError) -> MeshFailure:
    assert error.failure is not None
    return error.failure


def test_a_pending_call_is_told_at_once_of_a_sigkill(faults: Faults):
    """S1: within 20 ms where nothing else runs; asserted is a second."""
    victims = this_host().spawn_procs({"gpus": 4}).spawn("victims", Victim)
    pid = victims.pid.call().get(20).item(gpus=2)
    victims.say.call("last\nwords\n").get(20)
    pending = victims.nap.call(60)

    os.kill(pid, signal.SIGKILL)
    start = time.monotonic()
    with pytest.raises(SupervisionError) as caught:
        pending.get(20)
    waited = time.monotonic() - start

    assert waited < 1
    failure = failure_of(caught.value)
    assert (failure.mesh_name, failure.ranks, failure.pid) == ("victims", [2], pid)
    assert (failure.actor_class, failure.exit) == ("Victim", "SIGKILL")
    assert failure.host == os.uname().nodename
    assert failure.stderr.endswith("last\nwords")
    for word in ("Victim victims{'gpus': 2/4}", f"pid {pid}", "SIGKILL", failure.host, "words"):
        assert word in str(caught.value)
    faults.wait()


def test_an_idle_client_is_told_of_a_sigkill(faults: Faults):
    """S1: within 200 ms where nothing else runs; asserted are two seconds."""
    victims = this_host().spawn_procs({"gpus": 2}).spawn("victims", Victim)
    pid = victims.pid.call().get(20).item(gpus=1)

    os.kill(pid, signal.SIGKILL)
    start = time.monotonic()
    failure = faults.wait()

    assert time.monotonic() - start < 2
    assert (failure.mesh_name, failure.ranks, failure.pid) == ("victims", [1], pid)
    with pytest.raises(SupervisionError, match="failure on mesh victims at rank 1 with event"):
        victims.pid.call().get(20)
    assert victims.slice(gpus=0).add.call_one(1).get(20) == 1


@pytest.mark.parametrize(
    ("how", "code", "words"),
    [
        ("exit", "exit code 3", "it ended with exit code 3"),
        ("segv", "SIGSEGV", "it was killed by SIGSEGV"),
        ("abort", "SIGABRT", "it was killed by SIGABRT"),
        ("SIGKILL", "SIGKILL", "it was killed by SIGKILL; if nobody sent it"),
        ("SIGTERM", "SIGTERM", "it was killed by SIGTERM"),
    ],
)
def test_each_way_to_die_has_its_own_name(faults: Faults, how: str, code: str, words: str):
    """S2: also while a call is handled."""
    victim = this_host().spawn_procs().spawn("victim", Victim)

    with pytest.raises(SupervisionError) as caught:
        victim.end.call_one(how).get(20)

    assert failure_of(caught.value).exit == code
    assert words in str(caught.value)
    assert faults.wait().exit == code


@pytest.mark.parametrize(("how", "code"), [("exit", "exit code 3"), ("SIGKILL", "SIGKILL")])
def test_a_death_in_the_constructor_is_named(faults: Faults, how: str, code: str):
    """S2: before the actor is ready, with calls sent already."""
    actor = this_host().spawn_procs().spawn("stillborn", DiesAtBirth, how)

    with pytest.raises(SupervisionError) as caught:
        actor.pid.call_one().get(20)

    assert failure_of(caught.value).exit == code
    assert faults.wait().exit == code
    with pytest.raises(SupervisionError):
        actor.initialized.get(20)


def test_a_system_exit_ends_the_actor_and_not_its_process(faults: Faults):
    """E8: the process has other actors."""
    procs = this_host().spawn_procs()
    victim, neighbour = procs.spawn("victim", Victim), procs.spawn("neighbour", Victim)

    with pytest.raises(SupervisionError, match="SystemExit: 4"):
        victim.end.call_one("raise").get(20)

    assert neighbour.add.call_one(1).get(20) == 1
    assert "SystemExit: 4" in faults.wait().reason


def test_a_process_that_cannot_be_executed_is_named(faults: Faults):
    """S2: failures while starting."""
    procs = this_host().spawn_procs(proc_bind=[{"cpunodebind": "0"}], env={"PATH": "/nowhere"})
    victim = procs.spawn("victim", Victim)

    with pytest.raises(SupervisionError, match="could not be started") as caught:
        victim.pid.call_one().get(20)

    assert "numactl" in str(caught.value)
    assert faults.wait().exit == "exit code 126"


def test_a_command_that_ends_before_it_is_a_proc_is_named(faults: Faults):
    """S2: failed import at start, in an interpreter of its own."""
    command = BootstrapCommand(sys.executable, None, ["-c", "import no_such_module"], {})
    procs = this_host().spawn_procs({"gpus": 2}, bootstrap_command=command)
    victims = procs.spawn("victims", Victim)

    with pytest.raises(SupervisionError, match="exit code 1, before it was ready") as caught:
        victims.pid.call().get(20)

    assert "No module named 'no_such_module'" in str(caught.value)
    assert faults.wait(2).exit == "exit code 1"


def test_a_command_that_never_becomes_a_proc_is_ended(faults: Faults):
    """Within host_spawn_ready_timeout."""
    with configured(host_spawn_ready_timeout="1s"):
        command = BootstrapCommand("sleep", None, ["1000"], {})
        victim = this_host().spawn_procs(bootstrap_command=command).spawn("victim", Victim)

        with pytest.raises(SupervisionError, match="could not be started") as caught:
            victim.pid.call_one().get(20)

    assert "has not reported within 1 s (host_spawn_ready_timeout)" in str(caught.value)
    faults.wait()


def test_a_bootstrap_that_fails_is_told_to_who_waits_for_the_procs(faults: Faults):
    """S2: failed import at start."""

    def boot() -> None:
        import no_such_module  # type: ignore[import-not-found]  # noqa: F401  # it is missing

    procs = this_host().spawn_procs({"gpus": 2}, bootstrap=boot)
    victims = procs.spawn("victims", Victim)

    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        procs.initialized.get(20)
    with pytest.raises(SupervisionError, match="bootstrap of its process failed") as caught:
        victims.pid.call().get(20)
    assert "no_such_module" in str(caught.value)
    faults.wait(2)


def test_who_died_first_stands_first_in_a_chain_of_calls(faults: Faults):
    """S3: A awaits B awaits C; C is killed."""
    hosts = this_host()
    c = hosts.spawn_procs().spawn("c", Victim)
    b = hosts.spawn_procs().spawn("b", Relay, c)
    a = hosts.spawn_procs().spawn("a", Relay, b)

    with pytest.raises(ActorError) as caught:
        a.pass_on.call_one("SIGKILL").get(20)

    text = str(caught.value)
    assert text.startswith("Supervision event: actor Victim c failed")
    assert "SIGKILL" in text.splitlines()[0]
    assert "Actor call b.pass_on failed" in text
    assert "Actor call a.pass_on failed" in text
    assert isinstance(caught.value, SupervisionError)
    assert failure_of(caught.value).mesh_name == "c"
    faults.wait()


def test_an_error_about_a_large_message_is_small(faults: Faults):
    """S4: 10 MB to a dying actor; the error has at most 2 KB and none of them."""
    victim = this_host().spawn_procs().spawn("victim", Victim)
    victim.say.call_one("x" * 5000 + "\n" + "y" * 500 + "\n").get(20)

    with pytest.raises(SupervisionError) as caught:
        victim.swallow.call_one(b"payload" * 1_500_000).get(20)

    assert len(str(caught.value).encode()) <= 2048
    assert "payload" not in str(caught.value)
    assert len(faults.wait().report().encode()) <= 2048


def test_a_crash_after_a_broadcast_is_heard_of_without_any_reference(faults: Faults):
    """S5: all references are dropped."""
    this_host().spawn_procs().spawn("victim", Victim).end.broadcast("exit")

    failure = faults.wait()

    assert (failure.mesh_name, failure.exit) == ("victim", "exit code 3")


@pytest.mark.slow
def test_a_process_that_holds_the_interpreter_is_busy_not_dead(faults: Faults):
    """S6: nothing is decided by a clock; a few seconds show it."""
    procs = this_host().spawn_procs()
    victim, neighbour = procs.spawn("victim", Victim), procs.spawn("neighbour", Victim)
    held = victim.hold_gil.call_one(6)
    asked = neighbour.add.call_one(1)

    assert held.get(60) == neighbour.pid.call_one().get(20)
    assert asked.get(20) == 1
    assert not faults


def test_a_stopped_process_is_waited_for(faults: Faults):
    """S6: SIGSTOP."""
    victim = this_host().spawn_procs().spawn("victim", Victim)
    pid = victim.pid.call_one().get(20)
    os.kill(pid, signal.SIGSTOP)
    asked = victim.add.call_one(1)

    with pytest.raises(TimeoutError):
        asked.get(2)
    os.kill(pid, signal.SIGCONT)

    assert asked.get(20) == 1
    assert not faults


def test_all_ranks_that_die_are_told_of_one_by_one(faults: Faults):
    """Each failed rank is reported once."""
    victims = this_host().spawn_procs({"gpus": 3}).spawn("victims", Victim)
    victims.pid.call().get(20)

    victims.end.broadcast("SIGKILL")

    faults.wait(3)
    assert sorted(failure.ranks for failure in faults) == [[0], [1], [2]]


def test_one_death_with_many_actors_on_it_is_one_fault(faults: Faults):
    """The hook is called once a cause."""
    procs = this_host().spawn_procs({"gpus": 2})
    meshes = [procs.spawn(f"victims{i}", Victim) for i in range(3)]
    pid = meshes[0].pid.call().get(20).item(gpus=1)
    pending = [mesh.slice(gpus=1).nap.call_one(60) for mesh in meshes]

    os.kill(pid, signal.SIGKILL)

    for i, one in enumerate(pending):
        with pytest.raises(SupervisionError) as caught:
            one.get(20)
        assert failure_of(caught.value).mesh_name == f"victims{i}"
    faults.wait()
    assert [mesh.slice(gpus=0).add.call_one(1).get(20) for mesh in meshes] == [1, 1, 1]
    assert len(faults) == 1


def test_a_reference_held_elsewhere_is_told_of_the_death(faults: Faults):
    """A holder that is no owner gets no callback, and an error from its calls."""
    hosts = this_host()
    victim = hosts.spawn_procs().spawn("victim", Victim)
    relay = hosts.spawn_procs().spawn("relay", Relay, victim)
    os.kill(victim.pid.call_one().get(20), signal.SIGKILL)
    faults.wait()

    with pytest.raises(ActorError) as caught:
        relay.pass_on.call_one("exit").get(20)

    assert isinstance(caught.value, SupervisionError)
    assert len(faults) == 1


def test_a_reference_that_is_asked_later_knows_the_end(faults: Faults):
    """A process that never talked to the dead one asks its agent."""
    hosts = this_host()
    victim = hosts.spawn_procs().spawn("victim", Victim)
    pid = victim.pid.call_one().get(20)
    os.kill(pid, signal.SIGKILL)
    failure = faults.wait()
    relay = hosts.spawn_procs().spawn("relay", Relay, victim)

    with pytest.raises(SupervisionError, match=f"pid {failure.pid}"):
        relay.pass_on.call_one("exit").get(20)


def test_processes_end_when_the_mesh_is_gone_from_sight(faults: Faults):
    """Lifetime is tied to the owner, not to references: they go with the client's context."""
    import danaus.actor

    victims = this_host().spawn_procs({"gpus": 2}).spawn("victims", Victim)
    pids = list(victims.pid.call().get(20).values())
    del victims

    danaus.actor.shutdown_context().get(20)

    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), timeout=5)
    assert not faults


def test_a_process_that_closed_its_own_link_is_told_apart_from_one_out_of_memory(faults: Faults):
    """S2."""
    victim = this_host().spawn_procs().spawn("victim", Victim)
    victim.pid.call_one().get(20)
    victim.evaluate.call_one(close_sockets)

    with pytest.raises(SupervisionError, match="its connection to its host was closed") as caught:
        victim.nap.call_one(60).get(20)

    assert failure_of(caught.value).exit == "SIGKILL"
    assert "memory" not in str(caught.value)
    faults.wait()
