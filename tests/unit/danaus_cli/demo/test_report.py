"""What the demo tells, word for word."""

from __future__ import annotations

import io
import json

import pytest

from danaus_cli.demo.outcome import Death, Member, Outcome, Traffic
from danaus_cli.demo.plan import Plan
from danaus_cli.demo.progress import Style
from danaus_cli.demo.remains import Inventory, Process, Remains
from danaus_cli.demo.report import Narrator, format_bytes, verdict, write_json

DEATH = Death(
    rank=1,
    host="trainers_1",
    pid=102,
    exit="SIGKILL",
    step=1,
    reason="killed",
    noticed_s=0.004,
    recovered_s=0.120,
    new_pid=202,
    survivor=0,
)


def finished_outcome():
    return Outcome(
        plan=Plan(steps=2, trainers=2, batch=10, kill_one=True),
        parameters=249_209,
        files={"danaus": 87, "python": 2},
        characters=1_021_123,
        held_out_before=4.5678,
        held_out_after=1.5,
        losses=[4.0, 2.0],
        sample_before="def P{-z\n=G",
        sample_after="def value():\n    return " + "x" * 100,
        digests=["ab12", "ab12"],
        members=[
            Member("trainer", 0, "trainers_0", 101, 5.25),
            Member("loader", 0, "loaders_0", 103, 0.5),
        ],
        deaths=[DEATH],
        traffic=Traffic(12_345, 5 * 2**20, 3 * 2**30),
        start_s=0.25,
        training_s=2.0,
        stop_s=0.125,
        total_s=2.5,
        inventory=Inventory(frozenset({Process(7, 1), Process(8, 1)}), frozenset({"/tmp/s"})),
        remains=Remains(),
    )


def told(*calls, encoding="utf-8"):
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    narrator = Narrator(stream, Style(stream, {}))
    for call, argument in calls:
        getattr(narrator, call)(argument)
    stream.seek(0)
    return stream.read()


def test_the_opening_tells_of_job_text_model_and_first_loss():
    assert told(("opened", finished_outcome())) == (
        "  job       3 hosts: 2 train, 1 reads\n"
        "  text      1,021,123 characters from files: 87 of danaus and 2 of python\n"
        "  model     249,209 weights, the same on every trainer\n"
        "  before    loss 4.568 nats a character on text held out; it writes:\n"
        "            │ def P{-z\n"
        "            │ =G\n"
    )


def test_a_death_is_told_with_rank_place_signal_and_what_came_after():
    told_lines = told(("training_began", finished_outcome()), ("came_back", DEATH))

    assert told_lines == (
        "  killed    trainer 1 on trainers_1 (pid 102) died of SIGKILL in step 1; known after 4 ms\n"
        "  back      trainer 1 (pid 202) has the weights of trainer 0 after 120 ms; "
        "step 1 is made again\n"
    )


def test_the_close_tells_of_learning_places_and_traffic():
    assert told(("closed", finished_outcome())) == (
        "  after     loss 1.500 nats a character on text held out; it writes:\n"
        "            │ def value():\n"
        "            │     return " + "x" * 73 + "\n"
        "  learned   4.00 █▁ 2.00  40 tokens, 20 a second\n"
        "  weights   all 2 trainers ended with the same (checksum ab12)\n"
        "  where     trainer 0   on trainers_0     pid 101        5.2 s of processor\n"
        "            loader 0    on loaders_0      pid 103        0.5 s of processor\n"
        "  moved     12,345 messages, 5.0 MiB; 3.0 GiB of bulk data by shared memory\n"
    )


def test_the_end_tells_the_time_and_the_verdict():
    assert told(("ended", finished_outcome())) == (
        "  time      2.5 s: start 0.2, training 2.0, stop 0.1\n"
        "  left      nothing: its 2 processes, 1 socket and 0 files and folders are gone "
        "(looked up in /proc)\n"
    )


def test_trainers_that_differ_are_told_of():
    outcome = finished_outcome()
    outcome.digests = ["cd", "ab"]

    assert "  weights   trainers differ (checksums ab, cd)\n" in told(("closed", outcome))


def test_a_stream_of_ascii_gets_no_other_characters():
    calls = [("opened", finished_outcome()), ("closed", finished_outcome())]

    assert told(*calls, encoding="ascii").isascii()


def test_the_verdict_names_what_is_left():
    outcome = finished_outcome()
    outcome.remains = Remains(["7 a", "8 b", "9 c", "10 d"], [], ["/tmp/f"], waited_s=5.01)

    assert verdict(outcome) == (
        "after 5 s there are still 4 processes: 7 a, 8 b, 9 c, 1 more; 1 file or folder: /tmp/f"
    )


def test_the_verdict_is_open_where_nothing_could_be_looked_up():
    outcome = finished_outcome()
    outcome.inventory = Inventory()

    assert verdict(outcome).startswith("unknown")


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (3 * 2**30, "3.0 GiB"),
        (2**50, "1024.0 TiB"),
    ],
)
def test_bytes_are_told_in_powers_of_1024(count, text):
    assert format_bytes(count) == text


def test_json_holds_the_whole_run():
    stream = io.StringIO()

    write_json(finished_outcome(), stream)

    data = json.loads(stream.getvalue())
    assert data["plan"]["steps"] == 2
    assert data["deaths"][0]["exit"] == "SIGKILL"
    assert data["members"][0] == {
        "role": "trainer",
        "rank": 0,
        "host": "trainers_0",
        "pid": 101,
        "cpu_s": 5.25,
    }
    assert data["traffic"] == {"messages": 12_345, "bytes": 5 * 2**20, "bulk_bytes": 3 * 2**30}
