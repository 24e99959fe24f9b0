import os
import sys
from pathlib import Path
from typing import Any

import pytest

from danaus._proc import launch
from danaus._proc.launch import (
    EXEC_VARIABLE,
    PROC_MARK,
    from_exec,
    import_path,
    needs_exec,
    own_variables,
)


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"env": None, "command": None, "wrap": None, "python": None},
        {"env": {"CUDA_VISIBLE_DEVICES": "3", "RANK": "0", "PATH": "/bin"}},
        {"env": {"OMP_NUM_THREADS": "1", "OLD_PYTHON": "x"}},
        {"cpus": [0], "cwd": "/"},
        {"python": sys.executable},
    ],
)
def test_most_procs_are_forked(spec: dict[str, Any]):
    assert not needs_exec(spec)


@pytest.mark.parametrize(
    "spec",
    [
        {"env": {"LD_PRELOAD": "lib.so"}},
        {"env": {"PYTHONHASHSEED": "0"}},
        {"env": {"MALLOC_ARENA_MAX": "1"}},
        {"env": {"GLIBC_TUNABLES": "x"}},
        {"env": {"RANK": "0", "LD_LIBRARY_PATH": "/opt"}},
        {"command": {"program": "torchrun", "arg0": None, "args": [], "env": {}}},
        {"wrap": ["numactl", "--membind=0"]},
        {"python": "/usr/bin/another-python"},
    ],
)
def test_what_can_only_act_when_an_interpreter_starts_needs_exec(spec: dict[str, Any]):
    assert needs_exec(spec)


def test_a_variable_that_has_its_value_already_needs_no_exec(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONHASHSEED", "7")

    assert not needs_exec({"env": {"PYTHONHASHSEED": "7"}})
    assert needs_exec({"env": {"PYTHONHASHSEED": "8"}})
    assert needs_exec({"env": {"PYTHONHASHSEED": None}})


def test_a_variable_that_is_not_set_needs_no_exec_to_be_removed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("LD_PRELOAD", raising=False)

    assert not needs_exec({"env": {"LD_PRELOAD": None}})


def test_another_environment_of_the_same_interpreter_needs_exec(tmp_path: Path):
    python = tmp_path / "python"
    python.symlink_to(os.path.realpath(sys.executable))

    assert needs_exec({"python": str(python)})


def test_the_import_path_leads_to_danaus_and_what_it_needs():
    folders = [Path(folder) for folder in import_path().split(os.pathsep)]

    for package in "danaus", "msgspec", "cloudpickle":
        assert any((folder / package / "__init__.py").exists() for folder in folders)


@pytest.fixture
def description(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make what a process finds that was exec'd for a spec."""

    def make(spec: dict[str, Any]) -> int:
        import msgspec

        control = os.open(os.devnull, os.O_RDWR)
        memory = os.memfd_create("spec")
        os.write(memory, msgspec.msgpack.encode(spec))
        os.lseek(memory, 0, os.SEEK_SET)
        monkeypatch.setenv(EXEC_VARIABLE, f"{control},{memory}")
        monkeypatch.setattr(sys, "path", list(sys.path))
        monkeypatch.setattr(sys, "argv", list(sys.argv))
        return control

    return make


@pytest.mark.needs_linux
def test_an_execd_process_finds_its_description_once(description: Any):
    control = description({"id": "proc-1", "argv": ["script.py", "-v"], "path": None})
    os.set_inheritable(control, True)

    found = from_exec()

    assert found.spec["id"] == "proc-1"
    assert found.control == control
    assert not os.get_inheritable(control)
    assert sys.argv == ["script.py", "-v"]
    assert EXEC_VARIABLE not in os.environ
    os.close(control)


@pytest.mark.needs_linux
def test_the_same_interpreter_takes_the_clients_path_as_it_is(description: Any):
    control = description({"id": "p", "path": ["/client", "/client/site-packages"]})

    from_exec()

    assert sys.path == ["/client", "/client/site-packages"]
    os.close(control)


@pytest.mark.needs_linux
def test_another_environment_keeps_its_own_packages(description: Any):
    own = list(sys.path)
    control = description(
        {"id": "p", "python": "/other/python", "path": ["/client", "/lib/site-packages", "x.zip"]}
    )

    from_exec()

    assert sys.path == ["/client", *own]
    os.close(control)


def test_the_program_of_an_execd_proc_can_be_compiled():
    compile(launch.START, "<start>", "exec")


def test_a_proc_that_inherits_nothing_keeps_its_mark():
    spec = {"id": "p-1", "env": {"A": "1", "B": None}}

    assert own_variables(spec) == {"A": "1", PROC_MARK: "p-1"}
    assert own_variables({"id": "p-1"}) == {PROC_MARK: "p-1"}
