from typing import Any

import pytest

from danaus._job import ray as ray_job
from danaus._job.ray_nodes import shortage
from danaus.errors import MissingExtra
from danaus.job import RayJob, job_loads

SMALL, LARGE = {"CPU": 2.0}, {"CPU": 8.0, "GPU": 1.0}


def test_a_cluster_that_has_all_lacks_nothing():
    assert shortage([SMALL, LARGE], [{"CPU": 1}, {"GPU": 1}], spread=True) is None
    assert shortage([LARGE], [{"CPU": 4}, {"CPU": 4}], spread=False) is None


def test_hosts_are_moved_so_that_each_has_a_node_of_its_own():
    nodes = [LARGE, SMALL, SMALL]

    assert shortage(nodes, [{"CPU": 1}, {"CPU": 1}, {"GPU": 1}], spread=True) is None


def test_a_long_row_of_hosts_that_must_move_is_found():
    nodes = [{f"r{i}": 1.0, f"r{i + 1}": 1.0} for i in range(500)]
    bundles = [{f"r{i + 1}": 1.0} for i in range(499)] + [{"r0": 1.0}]

    assert shortage(nodes, bundles, spread=True) is None


def test_nodes_that_are_too_few_are_counted():
    lack = shortage([SMALL, LARGE], [{"CPU": 1}] * 3, spread=True)

    assert lack == (
        "3 nodes are needed, one for each host, and 2 of its 2 nodes have what one needs (CPU 1)"
    )


def test_hosts_that_need_the_same_node_are_refused():
    lack = shortage([SMALL, LARGE, SMALL], [{"GPU": 1}, {"GPU": 1}], spread=True)

    assert lack is not None
    assert "2 nodes are needed" in lack


def test_hosts_of_different_needs_that_want_one_node_are_refused():
    nodes = [{"a": 1.0, "b": 1.0}, {"c": 1.0}, {"c": 1.0}]

    lack = shortage(nodes, [{"a": 1}, {"b": 1}, {"c": 1}], spread=True)

    assert lack == "only 2 of 3 hosts can have a node of their own"


def test_a_resource_that_no_node_has_is_named_with_what_there_is():
    assert shortage([SMALL, LARGE], [{"GPU": 2}], spread=True) == (
        "none of its 2 nodes has GPU 2; they have GPU 0; GPU 1"
    )


def test_without_nodes_of_their_own_the_sum_counts():
    assert shortage([SMALL, SMALL], [{"CPU": 2}] * 3, spread=False) == (
        "6 CPU are needed, and its nodes have 4 in all"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"meshes": {"a": 0}}, "at least 1 host"),
        ({"meshes": {"_a": 1}}, "cannot be the name"),
        ({"strategy": "SCATTER"}, "strategy is one of"),
        ({"resources": {"CPU": 0}}, "must be positive"),
    ],
)
def test_odd_arguments_are_refused(arguments: dict[str, Any], words: str):
    with pytest.raises(ValueError, match=words):
        RayJob(**arguments)


def test_a_job_without_hosts_is_refused():
    with pytest.raises(RuntimeError, match="add_mesh"):
        RayJob().apply()


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ray_job, "find_spec", lambda name: None)

    with pytest.raises(MissingExtra, match=r"danaus\[ray\]"):
        RayJob({"a": 1}).apply()


def test_a_job_comes_back_from_json_with_the_same_wish():
    job = RayJob({"a": 2}, resources={"GPU": 8}, strategy="PACK", runtime_env={"pip": ["x"]})
    job.add_mesh("b", 1, {"CPU": 4})

    again = job_loads(job.dumps())

    assert isinstance(again, RayJob)
    assert again._wish() == job._wish()
