"""What procs write, and what becomes of it (CASES O)."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest

from danaus._runtime.process import runtime
from danaus.actor import MeshFailure, SupervisionError, this_host
from danaus.config import configured
from danaus.job import ProcessJob
from danaus.testing import snapshot
from tests.integration.output_actors import Nested, Speaker
from tests.integration.output_watch import run_program, speakers, watched_stdout, written

pytestmark = pytest.mark.needs_linux

Capture = pytest.CaptureFixture[str]


# who prints what


def test_line_of_one_rank_shows_host_mesh_pid_and_rank(capsys: Capture):
    procs, speaker = speakers(2, name="talkers")

    speaker.slice(gpus=1).say.call("hello").get(20)
    procs.stop().get(20)

    assert re.fullmatch(r"\[\S+ talkers \d+\] \[1\] hello\n", capsys.readouterr().out)


def test_streams_stay_apart(capsys: Capture):
    procs, speaker = speakers()

    speaker.write.call_one(b"out\n").get(20)
    speaker.write.call_one(b"err\n", 2).get(20)
    procs.stop().get(20)

    shown = capsys.readouterr()
    assert shown.out.endswith("[0] out\n")
    assert shown.err.endswith("[0] err\n")
    assert shown.out.count("\n") == shown.err.count("\n") == 1


def test_programs_that_an_actor_runs_are_heard(capsys: Capture):
    procs, speaker = speakers()

    speaker.run.call_one("echo", "from a child").get(20)
    procs.stop().get(20)

    assert "[0] from a child\n" in capsys.readouterr().out


def test_procs_that_a_proc_has_spawned_print_at_the_root_client(capsys: Capture, long_window: None):
    procs = this_host().spawn_procs(name="above")

    procs.spawn("nested", Nested).say_below.call_one("from below").get(20)
    procs.stop().get(20)

    assert capsys.readouterr().out == "[2 procs of below] [0-1] from below\n"


def test_procs_that_a_proc_has_spawned_on_another_host_print_at_the_root_client(
    capsys: Capture, long_window: None
):
    job = ProcessJob({"here": 1, "there": 1})
    hosts = job.state(cached_path=None)
    procs = hosts.here.spawn_procs(name="above")

    nested = procs.spawn("nested", Nested)
    nested.slice(hosts=0).say_below.call_one("from afar", hosts.there).get(20)
    procs.stop().get(20)
    job.kill()

    assert capsys.readouterr().out == "[2 procs of below] [0-1] from afar\n"


def test_proc_of_another_interpreter_environment_prints_line_by_line():
    procs = this_host().spawn_procs(env={"PYTHONHASHSEED": "7"})  # which makes it exec
    speaker = procs.spawn("speaker", Speaker)

    with watched_stdout() as screen:
        speaker.say.call_one("not buffered").get(20)
        assert screen.wait_for("not buffered")


def test_ranks_are_left_out_of_the_prefix_on_demand(capsys: Capture):
    procs, speaker = speakers()

    with configured(prefix_with_rank=False):
        speaker.say.call_one("hello").get(20)
        procs.stop().get(20)

    assert re.fullmatch(r"\[\S+ \d+\] hello\n", capsys.readouterr().out)


# O1


def test_same_line_of_all_ranks_is_shown_once_with_their_number(capsys: Capture, long_window: None):
    procs, speaker = speakers(4)

    speaker.say.call("same").get(20)
    procs.stop().get(20)

    assert capsys.readouterr().out == "[4 procs] [0-3] same\n"


def test_aggregated_lines_are_shown_once_with_a_count_and_never_raw(capsys: Capture):
    procs, speaker = speakers(4)
    procs.logging_option(stream_to_client=True, aggregate_window_sec=600).get(20)

    for _ in range(3):
        speaker.say.call("same").get(20)
    speaker.say_rank.call("rank").get(20)
    procs.stop().get(20)

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "[12 similar log lines] same"
    assert re.fullmatch(r"\[4 similar log lines\] rank <<\d, \d, \d, \d>>", lines[1])
    assert len(lines) == 2


def test_line_of_a_single_proc_is_not_held_back_for_others(long_window: None):
    _, speaker = speakers(1)

    with watched_stdout() as screen:
        speaker.say.call_one("at once").get(20)
        assert screen.wait_for(r"\[0\] at once\n")


# O2


def test_every_byte_is_in_the_file_when_a_proc_exits_in_the_middle(
    state: Path, failures: list[MeshFailure]
):
    _, speaker = speakers()
    data = b"".join(b"line %07d\n" % number for number in range(80_000))[: 1 << 20]

    with pytest.raises(SupervisionError, match="exit code 1"):
        speaker.write_and_exit.call_one(data, 1).get(20)

    assert written(state) == data


def test_last_lines_that_c_wrote_before_an_abort_reach_the_client(
    capsys: Capture, failures: list[MeshFailure]
):
    procs, speaker = speakers(4)

    with pytest.raises(SupervisionError, match="SIGABRT") as caught:
        speaker.slice(gpus=3).abort_in_c.call(150).get(20)
    procs.stop().get(20)

    shown = re.findall(r"\[3\] C line (\d+)\n", capsys.readouterr().err)
    assert shown == [str(number) for number in range(150)]
    assert caught.value.failure is not None
    assert caught.value.failure.stderr.splitlines() == [f"C line {n}" for n in range(50, 150)]
    assert "C line 149" in str(caught.value)


@configured(enable_log_forwarding=False)
def test_failure_has_the_last_words_also_when_nothing_is_forwarded(
    capsys: Capture, failures: list[MeshFailure]
):
    _, speaker = speakers()

    with pytest.raises(SupervisionError, match="C line 149"):
        speaker.abort_in_c.call_one(150).get(20)

    assert capsys.readouterr().err == ""


@configured(tail_log_lines=3)
def test_failure_has_as_many_lines_as_the_configuration_says(failures: list[MeshFailure]):
    _, speaker = speakers()

    with pytest.raises(SupervisionError) as caught:
        speaker.abort_in_c.call_one(150).get(20)

    assert caught.value.failure is not None
    assert caught.value.failure.stderr.splitlines() == [f"C line {n}" for n in range(147, 150)]


def test_failure_names_the_file_that_holds_all(state: Path, failures: list[MeshFailure]):
    _, speaker = speakers()

    with pytest.raises(SupervisionError) as caught:
        speaker.abort_in_c.call_one(150).get(20)

    found = re.search(r"its output is in (\S+\.log)", str(caught.value))
    assert found
    assert Path(found[1]).read_text().splitlines() == [f"C line {n}" for n in range(150)]


def test_death_of_a_rank_shows_what_the_window_still_held(failures: list[MeshFailure]):
    procs, speaker = speakers(2)
    procs.logging_option(True, aggregate_window_sec=600).get(20)

    with watched_stdout() as screen:
        with pytest.raises(SupervisionError):
            speaker.slice(gpus=1).write_and_exit.call(b"last words\n", 1).get(20)
        assert screen.wait_for("last words")


def test_report_of_an_unhandled_failure_follows_the_last_words():
    program = """
        speaker = this_host().spawn_procs(per_host={"gpus": 2}).spawn("s", Speaker)
        speaker.slice(gpus=1).abort_in_c.call(20).get(20)
    """
    done = run_program(program)

    assert done.returncode == 1
    assert done.stderr.index("[1] C line 19") < done.stderr.index("Unhandled danaus error")


# O3


@pytest.mark.parametrize(
    "data",
    [b"x" * 200_000 + b"\n", b"no newline", b"\xff\xfe broken \xc3\n", b"nul \0 nul\n", b"\r\n\n"],
)
def test_file_has_the_bytes_as_they_were_written(state: Path, data: bytes):
    procs, speaker = speakers()

    with configured(enable_log_forwarding=True):
        view = data
        for start in range(0, len(view), 50_000):
            speaker.write.call_one(view[start : start + 50_000]).get(20)
        procs.stop().get(20)

    assert written(state) == data


def test_long_line_is_cut_on_the_screen_and_tears_no_other(capsys: Capture):
    procs, speaker = speakers(2)

    speaker.write.broadcast(b"y" * 60_000)
    speaker.write.broadcast(b"y" * 60_000)
    speaker.write.broadcast(b"y" * 80_000 + b"\nnext\n")
    speaker.say.call("after").get(20)
    procs.stop().get(20)

    pattern = (
        r"(\[\S+ \d+\] \[\d\]|\[2 procs\] \[0-1\]) (y{1,4096}(\.\.\. \[TRUNCATED\])?|next|after)"
    )
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if not re.fullmatch(pattern, line)] == []
    assert any("after" in line for line in lines)


def test_last_line_appears_without_its_end_and_without_waiting_for_more():
    _, speaker = speakers()

    with watched_stdout() as screen:
        speaker.write.call_one(b"prompt> ").get(20)
        assert screen.wait_for(r"\[0\] prompt> \n")


def test_bytes_that_are_no_text_are_shown_with_replacements(capsys: Capture):
    procs, speaker = speakers()

    speaker.write.call_one(b"\xff\xfe and \0 and \xe2\x82\xac\n").get(20)
    procs.stop().get(20)

    assert capsys.readouterr().out.endswith("[0] \ufffd\ufffd and \0 and \u20ac\n")


def test_progress_bars_of_eight_ranks_are_whole_lines_and_few_of_them(capsys: Capture):
    procs, speaker = speakers(8)

    speaker.show_progress.call(200).get(20)
    procs.stop().get(20)

    lines = capsys.readouterr().err.splitlines()
    found = [re.fullmatch(r"\[\S+ \d+\] \[(\d)\] rank (\d): +(\d+)%", line) for line in lines]
    assert all(found), lines
    assert all(match[1] == match[2] for match in found if match)
    assert {match[1] for match in found if match and match[3] == "100"} == set("01234567")
    assert len(lines) < 8 * 200 / 4


# O4


def switches(pids: list[int]) -> int:
    """How often threads of these processes were woken so far."""
    total = 0
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            found = re.search(
                r"^voluntary_ctxt_switches:\s+(\d+)", (task / "status").read_text(), re.MULTILINE
            )
            total += int(found[1]) if found else 0
    return total


def test_idle_system_prints_nothing_and_is_not_woken(capsys: Capture):
    before = snapshot().processes
    _, speaker = speakers(4)
    speaker.say.call("awake").get(20)
    logs = runtime().output
    assert logs.flush(20)
    capsys.readouterr()
    pids = [process.pid for process in snapshot().processes - before]
    pause = threading.Event()
    pause.wait(1.5)  # timers of what went before are over, the I/O threads sleep

    counted = switches(pids)
    pause.wait(2)

    assert switches(pids) - counted < 5
    assert logs._printer._patience() is None
    assert capsys.readouterr() == ("", "")


# files


@configured(enable_file_capture=False)
def test_no_file_is_written_where_none_is_wanted(capsys: Capture, state: Path):
    procs, speaker = speakers()

    speaker.say.call_one("shown").get(20)
    procs.stop().get(20)

    assert "shown" in capsys.readouterr().out
    assert list(state.glob("*/*.log")) == []


def test_proc_runs_on_when_its_file_cannot_be_written_and_one_line_says_so(
    capsys: Capture, state: Path
):
    state.parent.write_text("in the way")
    procs, speaker = speakers()

    speaker.say.call_one("one").get(20)
    speaker.say.call_one("two").get(20)
    procs.stop().get(20)

    shown = capsys.readouterr()
    assert re.findall(r"\[0\] (\w+)\n", shown.out) == ["one", "two"]
    assert shown.err.count("can no longer be written to a file in") == 1
    assert "Not a directory" in shown.err


# the end


def test_script_that_ends_shows_all_that_its_procs_have_written():
    done = run_program("""
        procs = this_host().spawn_procs(per_host={"gpus": 4})
        procs.logging_option(stream_to_client=True, aggregate_window_sec=1000).get(20)
        speaker = procs.spawn("s", Speaker)
        for _ in range(5): speaker.say.call("over and over").get(20)
        for _ in range(50): speaker.slice(gpus=0).write.broadcast(b"z" * 1000 + b"\\n")
        speaker.say_at_exit.call("and out").get(20)
    """)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("[20 similar log lines] over and over\n") == 1
    assert done.stdout.count("[50 similar log lines] " + "z" * 1000 + "\n") == 1
    assert done.stdout.count("[4 similar log lines] and out\n") == 1
