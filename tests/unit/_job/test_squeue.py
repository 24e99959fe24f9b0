"""What squeue says of a job, in the ways of several versions (case J2)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danaus._job.squeue import Allocation, expand_nodes, parse_json, parse_text


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("node1", ["node1"]),
        ("a,b", ["a", "b"]),
        ("host[01-03,7],login", ["host01", "host02", "host03", "host7", "login"]),
        ("r[1-2]n[08-09]", ["r1n08", "r1n09", "r2n08", "r2n09"]),
        ("x[9-11]-ib", ["x9-ib", "x10-ib", "x11-ib"]),
    ],
)
def test_lists_of_nodes_are_expanded_in_order(text: str, names: list[str]):
    assert expand_nodes(text) == names


@pytest.mark.parametrize("text", ["a[1-", "a[x-3]", "a[3-1]", "a[1-9999999999]", "a]["])
def test_lists_that_are_none_are_refused(text: str):
    with pytest.raises(ValueError, match="list of nodes"):
        expand_nodes(text)


def output(**entry: Any) -> str:
    foreign = {"job_id": 1, "job_state": "RUNNING", "nodes": "other[1-9]"}
    return json.dumps({"jobs": [foreign, {"job_id": 42, **entry}]})


@pytest.mark.parametrize(
    "entry",
    [
        {"job_state": "RUNNING", "nodes": "n[1-2]"},
        {"job_state": ["RUNNING"], "job_resources": {"nodes": "n[1-2]"}},
        {
            "job_state": "RUNNING",
            "job_resources": {
                "allocated_nodes": [{"nodename": "n1", "cores": 4}, {"nodename": "n2"}]
            },
        },
        {
            "job_state": "RUNNING",
            "job_resources": {
                "allocated_nodes": {"0": {"nodename": "n1"}, "1": {"nodename": "n2"}}
            },
        },
        {"job_state": "RUNNING", "job_resources": {"allocated_nodes": {"n1": {}, "n2": {}}}},
        {
            "job_state": ["RUNNING", "CONFIGURING"],
            "job_resources": {
                "nodes": {"count": 2, "list": "n[1-2]", "allocation": [{"name": "n1"}]}
            },
        },
        {
            "job_state": ["RUNNING"],
            "job_resources": {"nodes": {"allocation": [{"name": "n1"}, {"name": "n2"}]}},
        },
    ],
)
def test_a_running_job_is_read_in_every_version(entry: dict[str, Any]):
    assert parse_json(output(**entry), "42") == Allocation("RUNNING", ("n1", "n2"))


def test_a_waiting_job_has_no_nodes_and_a_reason():
    text = output(job_state="PENDING", nodes="", job_resources=None, state_reason="Resources")

    assert parse_json(text, "42") == Allocation("PENDING", (), "Resources")


def test_a_job_that_is_not_listed_is_none():
    assert parse_json(output(job_state="RUNNING"), "7") is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"jobs": 3}', '{"jobs": [3]}'])
def test_what_is_no_output_is_refused(text: str):
    with pytest.raises(ValueError):  # noqa: PT011  # json's own, or ours
        parse_json(text, "42")


@pytest.mark.parametrize(
    ("text", "allocation"),
    [
        ("", None),
        ("RUNNING|n[1-2]|None\n", Allocation("RUNNING", ("n1", "n2"))),
        ("PENDING||Priority", Allocation("PENDING", (), "Priority")),
    ],
)
def test_the_text_output_says_the_same(text: str, allocation: Allocation | None):
    assert parse_text(text) == allocation


@given(st.text(max_size=60))
def test_no_text_makes_the_reader_crash(text: str):
    for read in (expand_nodes, parse_text, lambda text: parse_json(text, "1")):
        try:
            read(text)
        except ValueError:
            continue
