"""What a run comes to, as values."""

from __future__ import annotations

import pytest

from danaus_cli.demo.outcome import Outcome, Traffic
from danaus_cli.demo.plan import Plan
from danaus_cli.demo.remains import Inventory, Process, Remains


def good_outcome():
    outcome = Outcome(Plan(steps=3, trainers=2, batch=10))
    outcome.losses = [4.0, 3.0, 2.0]
    outcome.held_out_before, outcome.held_out_after = 4.5, 2.5
    outcome.digests = ["ab", "ab"]
    outcome.training_s = 0.5
    outcome.inventory = Inventory(frozenset({Process(7, 1)}), frozenset({"/tmp/s"}), frozenset())
    outcome.remains = Remains(waited_s=0.25)
    return outcome


def test_a_run_that_learned_agrees_and_left_nothing_is_a_success():
    assert good_outcome().is_success


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("held_out_after", 4.5),
        ("digests", ["ab", "cd"]),
        ("digests", []),
        ("remains", Remains(processes=["7 python"])),
        ("remains", Remains(sockets=["/tmp/s"])),
        ("remains", Remains(files=["/tmp/f"])),
    ],
)
def test_each_thing_that_goes_wrong_spoils_the_success(field, value):
    outcome = good_outcome()

    setattr(outcome, field, value)

    assert not outcome.is_success


def test_speed_counts_the_characters_of_all_trainers():
    speed = good_outcome().to_dict()["speed"]

    assert speed == {"steps_per_s": 6.0, "tokens_per_s": 120.0}


def test_the_curve_is_thinned_to_sixty_means():
    outcome = good_outcome()
    outcome.losses = [float(step) for step in range(120)]

    curve = outcome.to_dict()["loss"]["curve"]

    assert curve == [step + 0.5 for step in range(0, 120, 2)]


def test_what_was_looked_for_and_found_is_told():
    assert good_outcome().to_dict()["left_behind"] == {
        "checked": True,
        "had": {"processes": 1, "sockets": 1, "files": 0},
        "processes": [],
        "sockets": [],
        "files": [],
        "waited_s": 0.25,
    }


def test_a_system_without_proc_does_not_claim_to_have_checked():
    outcome = good_outcome()
    outcome.inventory = Inventory()

    assert outcome.to_dict()["left_behind"]["checked"] is False


def test_traffic_counts_what_each_process_sent():
    one = {"messages_sent": 1, "messages_received": 50, "bytes_sent": 10, "bulk_bytes": 100}

    total = Traffic.of(one) + Traffic(messages=2, bytes=20, bulk_bytes=200)

    assert total == Traffic(messages=3, bytes=30, bulk_bytes=300)
