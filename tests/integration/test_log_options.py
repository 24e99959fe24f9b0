"""How the output of procs is shown: `logging_option`, the levels of records, notebooks."""

from __future__ import annotations

import logging
import re
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import danaus.actor
from danaus.actor import MeshFailure, SupervisionError, this_host
from danaus.config import configured
from tests.integration.output_actors import Speaker
from tests.integration.output_watch import frames_of_agents, run_program, speakers, written

pytestmark = pytest.mark.needs_linux

Capture = pytest.CaptureFixture[str]


@configured(enable_log_forwarding=False)
def test_nothing_is_sent_without_forwarding_until_it_is_asked_for(capsys: Capture, state: Path):
    procs, speaker = speakers()
    speaker.say.call_one("in the file").get(20)
    before = frames_of_agents()

    speaker.say.call_one("in the file, too").get(20)
    assert frames_of_agents() == before
    procs.logging_option(stream_to_client=True).get(20)
    speaker.say.call_one("shown").get(20)
    procs.stop().get(20)

    assert capsys.readouterr().out.endswith("[0] shown\n")
    assert written(state) == b"in the file\nin the file, too\nshown\n"


def test_turning_forwarding_off_shows_what_came_before_and_nothing_after(capsys: Capture):
    procs, speaker = speakers(2)
    procs.logging_option(True, aggregate_window_sec=600).get(20)
    speaker.say.call("before").get(20)

    procs.logging_option(stream_to_client=False).get(20)
    speaker.say.call("after").get(20)
    procs.stop().get(20)

    assert capsys.readouterr().out == "[2 similar log lines] before\n"


def test_some_ranks_can_be_silenced(capsys: Capture):
    procs, speaker = speakers(3)

    procs.slice(gpus=slice(0, 2)).logging_option(stream_to_client=False).get(20)
    speaker.say_rank.call("I am").get(20)
    procs.stop().get(20)

    assert re.fullmatch(r"\[\S+ \d+\] \[2\] I am 2\n", capsys.readouterr().out)


def test_without_a_window_each_line_is_shown_by_itself(capsys: Capture):
    procs, speaker = speakers(2)
    procs.logging_option(True, aggregate_window_sec=600).get(20)
    speaker.say.call("together").get(20)

    procs.logging_option(True).get(20)
    speaker.say.call("alone").get(20)
    procs.stop().get(20)

    out = capsys.readouterr().out
    assert out.startswith("[2 similar log lines] together\n")
    assert len(re.findall(r"\[\S+ \d+\] \[[01]\] alone\n", out)) == 2


def test_options_hold_for_a_rank_that_is_started_again(
    capsys: Capture, failures: list[MeshFailure]
):
    procs, speaker = speakers(2)
    procs.logging_option(stream_to_client=False).get(20)
    with pytest.raises(SupervisionError):
        speaker.slice(gpus=1).write_and_exit.call(b"dead\n", 1).get(20)

    procs.respawn(1).get(20)
    speaker.say.call("again").get(20)
    procs.stop().get(20)

    assert capsys.readouterr().out == ""


def test_options_can_be_set_before_a_proc_runs(capsys: Capture):
    procs = this_host().spawn_procs(per_host={"gpus": 2}, preload=["json"])

    done = procs.logging_option(stream_to_client=False)
    procs.spawn("speakers", Speaker).say.call("quiet").get(20)
    procs.stop().get(20)

    assert done.get(20) is None
    assert capsys.readouterr().out == ""


def test_options_of_a_stopped_mesh_cannot_be_set():
    procs, _ = speakers()
    procs.stop().get(20)

    with pytest.raises(RuntimeError, match="has already been stopped"):
        procs.logging_option(True).get(20)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"level": 256}, ValueError, r"level 256 is out of range; levels of logging are 0\.\.255"),
        ({"level": -1}, ValueError, "level -1"),
        ({"level": "INFO"}, TypeError, r"logging\.INFO, got 'INFO'"),
        ({"aggregate_window_sec": -1}, ValueError, "got -1"),
        ({"aggregate_window_sec": float("nan")}, ValueError, "got nan"),
        ({"aggregate_window_sec": "3s"}, TypeError, "got '3s'"),
    ],
)
def test_options_are_checked_at_once(options: dict[str, Any], error: type[Exception], text: str):
    procs, _ = speakers()

    with pytest.raises(error, match=text):
        procs.logging_option(True, **options)


# Python's logging


def test_records_name_their_actor_and_their_script():
    done = run_program("""
        import logging
        logging.basicConfig(format="%(message)s")
        logging.warning("before the runtime")
        speaker = this_host().spawn_procs(per_host={"gpus": 2}).spawn("s", Speaker)
        speaker.slice(gpus=1).log.call(logging.WARNING, "100%% of %s", "it").get(20)
        logging.warning("in the script")
        speaker.slice(gpus=1).log.call(logging.WARNING, "").get(20)
    """)

    lines = done.stderr.splitlines()
    assert lines[0] == "before the runtime"
    assert "[actor=<root>] in the script" in lines
    name = r"<root>\.<tests\.integration\.output_actors\.Speaker s\{'gpus': 1/2\}>"
    assert re.search(rf"^\[\S+ \d+\] \[1\] \[actor={name}\] 100% of it$", done.stderr, re.MULTILINE)
    assert re.search(r"^\[\S+ \d+\] \[1\] $", done.stderr, re.MULTILINE)


def test_prefix_of_records_can_be_turned_off_at_any_time(
    capsys: Capture, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    danaus.actor.context()
    logging.getLogger("test").warning("with")
    monkeypatch.setattr(danaus.actor.config, "prefix_python_logs_with_actor", False)
    logging.getLogger("test").warning("without")
    procs, speaker = speakers()
    speaker.log.call_one(logging.ERROR, "remote").get(20)
    procs.stop().get(20)

    assert caplog.messages == ["[actor=<root>] with", "without"]
    assert capsys.readouterr().err.endswith("[0] remote\n")


def test_level_of_records_is_that_of_the_option(capsys: Capture):
    procs, speaker = speakers()

    for level in (logging.CRITICAL, logging.INFO):
        procs.logging_option(True, level=level).get(20)
        speaker.log.call_one(logging.ERROR, f"error at {level}").get(20)
        speaker.log.call_one(logging.INFO, f"info at {level}").get(20)
    procs.stop().get(20)

    assert re.findall(r"\] (\w+ at \d+)\n", capsys.readouterr().err) == [
        "error at 20",
        "info at 20",
    ]


# notebooks


class Shell:
    """A stand-in for IPython's shell: it calls back after a cell."""

    def __init__(self) -> None:
        self.events = self
        self.after_cell: list[Callable[[object], None]] = []

    def register(self, event: str, call: Callable[[object], None]) -> None:
        assert event == "post_run_cell"
        self.after_cell.append(call)


def test_end_of_a_cell_shows_all_that_was_written(capsys: Capture, monkeypatch: pytest.MonkeyPatch):
    shell = Shell()
    notebook = types.ModuleType("IPython")
    notebook.__dict__["get_ipython"] = lambda: shell
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    procs, speaker = speakers(2)
    for _ in range(2):
        procs.logging_option(True, aggregate_window_sec=600).get(20)
    speaker.say.call("in a cell").get(20)

    (after_cell,) = shell.after_cell
    after_cell(None)

    assert capsys.readouterr().out == "[2 similar log lines] in a cell\n"
