from __future__ import annotations

import sys

import cloudpickle
import pytest

import danaus
from danaus._proc.versions import find_conflict, versions

OURS = {"danaus": "0.3.1", "python": "3.11.7", "cloudpickle": "3.1.1"}


def test_the_versions_of_this_process_are_told():
    assert versions() == {
        "danaus": danaus.__version__,
        "python": ".".join(map(str, sys.version_info[:3])),
        "cloudpickle": cloudpickle.__version__,
    }


@pytest.mark.parametrize(
    "other", [{}, {"danaus": "0.3.9"}, {"python": "3.11.0"}, {"cloudpickle": "3.0.0"}]
)
def test_small_differences_are_no_conflict(other: dict[str, str]):
    assert find_conflict(OURS, OURS | other, "the client has") == ""


@pytest.mark.parametrize(
    "other", [{"danaus": "0.4.0"}, {"python": "3.12.7"}, {"cloudpickle": "2.2.1"}]
)
def test_a_conflict_is_one_line_that_shows_both_sides(other: dict[str, str]):
    theirs = OURS | other
    (name,) = other

    text = find_conflict(OURS, theirs, "the client has")

    assert text == (
        f"{name} differ: here danaus 0.3.1, python 3.11.7, cloudpickle 3.1.1; the client has "
        f"danaus {theirs['danaus']}, python {theirs['python']}, "
        f"cloudpickle {theirs['cloudpickle']}. Install the same versions on both sides."
    )


def test_a_peer_that_tells_no_versions_conflicts():
    text = find_conflict(OURS, {}, "host h has")

    assert text.startswith("danaus and python and cloudpickle differ: here danaus 0.3.1")
    assert "host h has danaus unknown, python unknown, cloudpickle unknown" in text
