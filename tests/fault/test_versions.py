"""Versions that cannot work together: refused in one line that shows both sides."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import danaus
from danaus.actor import SupervisionError, this_host
from tests.fault.conftest import Faults
from tests.fault.script import Script
from tests.fault.victims import Victim

Start = Callable[..., Script]


def test_a_client_of_another_version_is_refused_by_the_host(script: Start):
    """The host's agent is a process of its own, with the installed version."""
    client = script(
        """
        import danaus
        danaus.__version__ = "77.0.0"
        from danaus.actor import this_host
        from tests.fault.victims import Victim
        this_host().spawn_procs({"gpus": 2}).spawn("victims", Victim).pid.call().get(20)
        """
    )

    client.rest()

    assert client.wait(5) == 1
    assert "refuses this client: danaus differ" in client.stderr
    assert f"here danaus {danaus.__version__}" in client.stderr
    assert "the client has danaus 77.0.0" in client.stderr
    client.assert_nothing_left()


def test_an_interpreter_with_another_version_is_refused_by_its_proc(faults: Faults, tmp_path: Path):
    """It is found when the process starts, before anything of the client is unpickled."""
    other = tmp_path / "sitecustomize.py"
    other.write_text("import danaus\ndanaus.__version__ = '77.0.0'\n")
    package = str(Path(danaus.__file__).parents[1])
    procs = this_host().spawn_procs(env={"PYTHONPATH": f"{tmp_path}:{package}"})
    victim = procs.spawn("victim", Victim)

    with pytest.raises(SupervisionError, match="could not be started") as caught:
        victim.pid.call_one().get(20)

    assert "danaus differ: here danaus 77.0.0" in str(caught.value)
    assert faults.wait().exit == "exit code 126"
