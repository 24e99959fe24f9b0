import pytest
from hypothesis import given
from hypothesis import strategies as st

from danaus._proc.binding import bind, parse_cpus


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0", [0]),
        ("0-3", [0, 1, 2, 3]),
        ("0-1,8", [0, 1, 8]),
        (" 3 , 1-2 ", [1, 2, 3]),
        ("5-5,5,4-6", [4, 5, 6]),
    ],
)
def test_a_list_of_processors_is_read(text: str, cpus: list[int]):
    assert parse_cpus(text) == cpus


@given(st.sets(st.integers(0, 500), min_size=1))
def test_any_set_of_processors_can_be_written(cpus: set[int]):
    assert parse_cpus(",".join(map(str, cpus))) == sorted(cpus)


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "3-1", "1,,2", "1-2-3", "0x1"])
def test_what_is_no_list_of_processors_is_refused(text: str):
    with pytest.raises(ValueError, match="is no list of processors; write it like '0-3,8'"):
        parse_cpus(text)


def test_processors_are_bound_in_place():
    assert bind({"cpus": "0-1"}) == {"cpus": [0, 1]}


def test_memory_nodes_need_numactl():
    assert bind({"membind": "0", "cpunodebind": "1"}) == {
        "wrap": ["numactl", "--cpunodebind=1", "--membind=0"]
    }


def test_both_may_be_asked_for():
    assert bind({"cpus": "2", "physcpubind": "2"}) == {
        "cpus": [2],
        "wrap": ["numactl", "--physcpubind=2"],
    }


def test_nothing_is_asked_for():
    assert bind({}) == {}


def test_an_unknown_key_is_refused_with_those_that_are_known():
    with pytest.raises(ValueError, match=r"unknown keys \['cpu'\]; known are cpus, cpunodebind"):
        bind({"cpu": "1"})
