"""Many processes, few descriptors."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from danaus.actor import this_host
from tests.fault.conftest import Faults
from tests.fault.script import Script
from tests.fault.victims import Victim


def soft_limit() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def test_procs_have_the_limit_of_open_files_that_the_client_has(faults: Faults):
    """Though their host raises its own."""
    victim = this_host().spawn_procs().spawn("victim", Victim)

    assert victim.evaluate.call_one(soft_limit).get(20) == soft_limit()


@pytest.mark.slow
def test_a_hundred_procs_need_no_more_than_the_usual_limit(script: Callable[..., Script]):
    """M5: ulimit -n 1024, soft and hard."""
    client = script(
        """
        from danaus.actor import this_host
        from tests.fault.victims import Victim

        if __name__ == "__main__":
            victims = this_host().spawn_procs({"gpus": 100}).spawn("victims", Victim)
            print(sum(victims.add.call(1).get(60).values()), flush=True)
        """,
        limit=1024,
    )

    assert client.rest(90) == "100\n"
    assert (client.wait(20), client.stderr) == (0, "")
    client.assert_nothing_left()


@pytest.mark.slow
def test_a_host_that_runs_out_of_descriptors_names_the_limit(script: Callable[..., Script]):
    """M5: the host has more of them to open than its client; the rest of the mesh works."""
    client = script(
        """
        import danaus.actor
        from danaus.actor import SupervisionError, this_host
        from tests.fault.victims import Victim

        if __name__ == "__main__":
            danaus.actor.unhandled_fault_hook = lambda failure: None
            procs = this_host().spawn_procs({"gpus": 100})
            victims = procs.spawn("victims", Victim)
            reached, why = 0, ""
            for i in range(100):
                try:
                    reached += victims.slice(gpus=i).add.call_one(1).get(60)
                except SupervisionError as error:
                    why = str(error)
            print(20 < reached < 100, "ulimit -n" in why, "may have 200" in why, flush=True)
        """,
        limit=200,
    )

    assert client.rest(90) == "True True True\n"
    assert client.wait(20) == 0
    client.assert_nothing_left()


@pytest.mark.slow
def test_a_thousand_procs_start_answer_and_stop(faults: Faults):
    """With few descriptors in the client, and all of the host's given back."""
    lasting = this_host().spawn_procs().spawn("lasting", Victim)
    zygote = lasting.evaluate.call_one(parent).get(20)
    agent = int(Path(f"/proc/{zygote}/stat").read_text().rpartition(")")[2].split()[1])
    before = [descriptors("self"), descriptors(agent), descriptors(zygote)]

    start = time.monotonic()
    procs = this_host().spawn_procs({"hosts": 10, "gpus": 100})
    victims = procs.spawn("victims", Victim)
    values = victims.add.call(1).get(120)
    took = time.monotonic() - start

    assert list(values.values()) == [1] * 1000
    assert took < 100  # 15 where nothing else runs
    assert descriptors("self") < before[0] + 200
    procs.stop().get(60)
    assert [descriptors("self"), descriptors(agent), descriptors(zygote)] == before
    assert not faults


def parent() -> int:
    import os

    return os.getppid()


def descriptors(pid: int | str) -> int:
    return len([*Path(f"/proc/{pid}/fd").iterdir()])
