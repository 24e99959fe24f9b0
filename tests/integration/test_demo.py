"""``danaus demo`` as a user runs it: a program of its own, with real processes."""

from __future__ import annotations

import functools
import json
import math
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.needs_linux, pytest.mark.timeout(120)]

STEPS = 100

# The project's own text would make a run another one as soon as somebody edits a file.
TEXT = str(Path(json.__file__).parents[1] / "email")


def start(*words: str, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "danaus_cli", "demo", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def demo(*words: str) -> subprocess.CompletedProcess[str]:
    process = start(*words)
    out, err = process.communicate(timeout=90)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@functools.cache
def json_run(*words: str) -> dict[str, Any]:
    """The data of a run; runs with the same arguments are made once."""
    return json_run_again(*words)


def json_run_again(*words: str) -> dict[str, Any]:
    done = demo("--json", "--steps", str(STEPS), "--text", TEXT, *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def processes_with(word: str) -> list[str]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if word.encode() in (folder / "environ").read_bytes():
                found.append(folder.name)
        except OSError:  # it has ended, or is another user's
            continue
    return found


def test_the_loss_falls_by_more_than_two_nats():
    loss = json_run()["loss"]

    assert loss["held_out_before"] == pytest.approx(math.log(97), abs=0.1)
    assert loss["held_out_before"] - loss["held_out_after"] > 2.0
    assert loss["curve"][0] - loss["curve"][-1] > 2.0


def test_all_trainers_end_with_the_same_weights():
    assert json_run()["model"]["identical"] is True


def test_every_actor_has_a_process_of_its_own():
    members = json_run()["members"]

    roles = sorted(member["role"] for member in members)
    assert roles == ["driver", "loader", "trainer", "trainer", "trainer", "trainer"]
    assert len({member["pid"] for member in members}) == 6


def test_messages_and_bytes_of_every_step_are_counted():
    run = json_run()

    # A step: gradient and its answer, the sum, a batch and its answer; for each of 4 trainers.
    assert run["traffic"]["messages"] >= STEPS * 4 * 5
    gradients = 4 * run["model"]["parameters"] * STEPS * 4
    assert run["traffic"]["bytes"] + run["traffic"]["bulk_bytes"] >= gradients


def test_nothing_is_left_behind_and_that_was_looked_up():
    left = json_run()["left_behind"]

    assert left["checked"] is True
    assert left["had"]["processes"] >= 5
    assert left["had"]["sockets"] >= 1
    assert (left["processes"], left["sockets"], left["files"]) == ([], [], [])


@pytest.mark.slow
def test_the_same_seed_gives_the_same_run_to_the_last_bit():
    first, again = json_run(), json_run_again()

    assert again["model"]["digest"] == first["model"]["digest"]
    assert again["loss"] == first["loss"]
    assert again["samples"] == first["samples"]


def test_a_killed_trainer_is_named_and_brought_back():
    run = json_run("--kill-one")

    (death,) = run["deaths"]
    assert (death["rank"], death["exit"], death["step"]) == (2, "SIGKILL", STEPS // 2)
    assert death["noticed_s"] < 5.0
    trainer = next(m for m in run["members"] if (m["role"], m["rank"]) == ("trainer", 2))
    assert trainer["pid"] == death["new_pid"] != death["pid"]
    assert run["left_behind"]["processes"] == []


def test_a_run_with_a_kill_learns_exactly_what_one_without_learns():
    assert json_run("--kill-one")["model"] == json_run()["model"]
    assert json_run("--kill-one")["loss"] == json_run()["loss"]


@pytest.mark.slow
def test_another_shape_of_the_cluster_works():
    run = json_run("--trainers", "3", "--loaders", "2", "--seed", "7")

    assert run["loss"]["held_out_before"] - run["loss"]["held_out_after"] > 2.0
    roles = sorted(member["role"] for member in run["members"])
    assert roles == ["driver", "loader", "loader", "trainer", "trainer", "trainer"]
    assert run["success"] is True


@pytest.mark.slow
def test_people_are_told_the_same_in_plain_lines_off_a_terminal():
    done = demo("--steps", "40", "--kill-one")

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    assert "\r" not in done.stdout
    assert re.search(
        r"^ +killed +trainer 2 on .* died of SIGKILL in step 20;", done.stdout, re.MULTILINE
    )
    assert re.search(r"^ +left +nothing: its \d+ processes, ", done.stdout, re.MULTILINE)
    assert len(re.findall(r"^ *\d+/40 steps ", done.stdout, re.MULTILINE)) == 10


@pytest.mark.slow
def test_an_interrupt_ends_the_run_and_all_its_processes():
    mark = f"DEMO_TEST_{os.getpid()}"
    with start("--steps", "100000", env={**os.environ, mark: "1"}, process_group=0) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            while "it writes:" not in process.stdout.readline():
                assert process.poll() is None, process.stderr.read()
            assert len(processes_with(mark)) > 5

            os.killpg(process.pid, signal.SIGINT)
            _, err = process.communicate(timeout=20)
        finally:
            process.kill()

    assert process.returncode == 130
    assert err == "danaus: interrupted\n"
    assert processes_with(mark) == []
