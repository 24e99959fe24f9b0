"""What a process is when it starts: environment, interpreter, place, bootstrap."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from danaus.actor import (
    ActorError,
    BootstrapCommand,
    SupervisionError,
    default_bootstrap_cmd,
    this_host,
)
from tests.integration import spawn_actors
from tests.integration.spawn_actors import Inspector


def test_ranks_are_row_major_over_the_dimensions_of_a_host() -> None:
    inspectors = this_host().spawn_procs(per_host={"racks": 2, "gpus": 3}).spawn("i", Inspector)

    places = inspectors.place.call().get(20)

    assert places.extent.sizes == [2, 3]
    for point, (_, rank, coordinates) in places.items():
        assert (rank, coordinates) == (point.rank, dict(point))
    assert len({pid for pid, _, _ in places.values()}) == 6


def test_every_rank_has_its_own_variables_and_none_removes_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DANAUS_TEST_GONE", "here")
    procs = this_host().spawn_procs(
        per_host={"gpus": 2},
        env=lambda point: {"RANK": str(point["gpus"]), "DANAUS_TEST_GONE": None},
    )
    inspectors = procs.spawn("i", Inspector)

    assert list(inspectors.variable.call("RANK").get(20).values()) == ["0", "1"]
    assert list(inspectors.variable.call("DANAUS_TEST_GONE").get(20).values()) == [None, None]


def test_a_variable_that_acts_at_interpreter_start_takes_effect() -> None:
    """PYTHON*, LD_* and MALLOC_* make the process exec instead of fork: same handle, same rank."""
    procs = this_host().spawn_procs(per_host={"gpus": 2}, env={"PYTHONHASHSEED": "7", "OTHER": "x"})
    inspectors = procs.spawn("i", Inspector)

    expected = subprocess.run(
        [sys.executable, "-c", "print(hash('danaus'))"],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    assert list(inspectors.variable.call("OTHER").get(20).values()) == ["x", "x"]
    hashes = inspectors.evaluate.call(lambda: hash("danaus")).get(20)
    assert list(hashes.values()) == [int(expected.stdout)] * 2


def test_procs_import_what_the_client_can_and_start_where_it_is() -> None:
    inspector = this_host().spawn_procs().spawn("i", Inspector)

    executable, path, cwd = inspector.interpreter.call_one().get(20)

    assert executable == sys.executable
    assert path == [p or str(Path.cwd()) for p in sys.path]
    assert cwd == str(Path.cwd())


def test_bootstrap_runs_in_each_process_before_any_actor() -> None:
    procs = this_host().spawn_procs(
        per_host={"gpus": 2}, bootstrap=spawn_actors.boot, env=lambda p: {"RANK": str(p.rank)}
    )
    inspectors = procs.spawn("i", Inspector)

    assert list(inspectors.booted.call().get(20).values()) == [["rank 0"], ["rank 1"]]
    assert procs.initialized.get(20) is True


def test_bootstrap_may_be_async() -> None:
    inspector = this_host().spawn_procs(bootstrap=spawn_actors.boot_later).spawn("i", Inspector)

    assert inspector.booted.call_one().get(20) == ["async"]


def test_a_bootstrap_that_raises_is_the_failure_of_initialized() -> None:
    procs = this_host().spawn_procs(bootstrap=spawn_actors.fail_to_boot)

    with pytest.raises(ActorError, match="no such device"):
        procs.initialized.get(20)
    with pytest.raises(LookupError):
        procs.initialized.get(20)


def test_preloaded_modules_are_there_without_being_imported() -> None:
    procs = this_host().spawn_procs(per_host={"gpus": 2}, preload=["wave", "colorsys"])
    inspectors = procs.spawn("i", Inspector)

    for modules in inspectors.modules.call().get(20).values():
        assert {"wave", "colorsys"} <= set(modules)
    plain = this_host().spawn_procs().spawn("i", Inspector)
    assert "colorsys" not in plain.modules.call_one().get(20)


def test_a_preload_that_cannot_be_imported_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("danaus.actor.unhandled_fault_hook", lambda _failure: None)
    inspector = this_host().spawn_procs(preload=["no_such_module"]).spawn("i", Inspector)

    with pytest.raises(SupervisionError, match="no_such_module"):
        inspector.place.call_one().get(20)


def test_a_process_can_be_bound_to_processors() -> None:
    allowed = sorted(os.sched_getaffinity(0))
    procs = this_host().spawn_procs(
        per_host={"gpus": 2}, proc_bind=[{"cpus": str(allowed[0])}, {"cpus": str(allowed[-1])}]
    )
    inspectors = procs.spawn("i", Inspector)

    bound = list(inspectors.processors.call().get(20).values())

    assert bound == [[allowed[0]], [allowed[-1]]]


@pytest.mark.parametrize(
    ("proc_bind", "message"),
    [
        ([{"cpus": "0"}], r"proc_bind length \(1\) must equal procs_per_host \(2\)"),
        ([{"cpus": "3-1"}, {}], "write it like '0-3,8'"),
        ([{"cpu": "1"}, {}], "unknown keys.*known are cpus"),
    ],
)
def test_a_wrong_binding_is_refused_at_once(proc_bind: list[dict[str, str]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        this_host().spawn_procs(per_host={"gpus": 2}, proc_bind=proc_bind)


def test_a_bootstrap_command_starts_the_processes(tmp_path: Path) -> None:
    marker = tmp_path / "started"
    wrapper = tmp_path / "wrapper.sh"
    wrapper.write_text(f'#!/bin/sh\necho "$@" > {marker}\nexec "$@"\n')
    wrapper.chmod(0o755)
    base = default_bootstrap_cmd()
    command = BootstrapCommand(str(wrapper), None, [base.program, *base.args], base.env)

    inspector = (
        this_host()
        .spawn_procs(bootstrap_command=command.with_env({"FROM_COMMAND": "yes"}))
        .spawn("i", Inspector)
    )

    assert inspector.variable.call_one("FROM_COMMAND").get(20) == "yes"
    assert sys.executable in marker.read_text()


def test_a_command_may_inherit_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROM_CLIENT", "yes")
    base = default_bootstrap_cmd()
    command = BootstrapCommand(
        base.program, base.arg0, base.args, {**base.env, "FROM_COMMAND": "yes"}, inherit_env=False
    )

    inspector = (
        this_host()
        .spawn_procs(bootstrap_command=command, env={"FROM_SPAWN": "yes"})
        .spawn("i", Inspector)
    )

    names = ["FROM_CLIENT", "FROM_COMMAND", "FROM_SPAWN"]
    found = [inspector.variable.call_one(name).get(20) for name in names]
    assert found == [None, "yes", "yes"]


def test_the_default_command_inherits_its_hosts_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FROM_CLIENT", "yes")
    command = default_bootstrap_cmd()
    assert "FROM_CLIENT" not in command.env

    inspector = this_host().spawn_procs(bootstrap_command=command).spawn("i", Inspector)

    assert inspector.variable.call_one("FROM_CLIENT").get(20) == "yes"


def test_a_command_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("danaus.actor.unhandled_fault_hook", lambda _failure: None)
    command = BootstrapCommand("/nowhere/python", None, [], {})
    inspector = this_host().spawn_procs(bootstrap_command=command).spawn("i", Inspector)

    with pytest.raises(SupervisionError, match="/nowhere/python"):
        inspector.place.call_one().get(20)


@pytest.mark.slow
def test_procs_may_use_another_interpreter(tmp_path: Path) -> None:
    other = tmp_path / "venv"
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(other)], check=True, timeout=60
    )
    hosts = this_host().with_python_executable(str(other / "bin" / "python"))

    inspector = hosts.spawn_procs().spawn("i", Inspector)
    executable, _, _ = inspector.interpreter.call_one().get(20)

    assert executable == str(other / "bin" / "python")


def test_an_interpreter_that_does_not_exist_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="no interpreter at /nowhere/python"):
        this_host().with_python_executable("/nowhere/python")


@pytest.mark.parametrize("size", [0, -1, 1.5, True, "2"])
def test_a_size_that_is_no_positive_integer_is_refused(size: object) -> None:
    with pytest.raises(ValueError, match=r"per_host\['gpus'\] must be an integer of at least 1"):
        this_host().spawn_procs(per_host={"gpus": size})  # type: ignore[dict-item]
