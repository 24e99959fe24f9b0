from __future__ import annotations

import pytest

from danaus._job.local import LocalJob
from danaus._job.process import ProcessJob
from danaus._job.record import class_name, find_class, plain
from danaus._job.trait import JobTrait


@pytest.mark.parametrize(
    ("value", "as_json"),
    [
        (None, None),
        (1.5, 1.5),
        ("text", "text"),
        ((1, (2, 3)), [1, [2, 3]]),
        ({"a": (True, {"b": ()})}, {"a": [True, {"b": []}]}),
    ],
)
def test_plain_values_are_kept_and_tuples_become_lists(value: object, as_json: object):
    assert plain("Job", "x", value) == as_json


@pytest.mark.parametrize("value", [b"bytes", {1: "one"}, [object()], {"a": {2.0}}])
def test_a_value_that_json_lacks_is_refused_by_the_name_of_its_attribute(value: object):
    with pytest.raises(TypeError, match=r"a Job cannot be written .* attribute 'x' holds"):
        plain("Job", "x", value)


def test_classes_of_danaus_go_by_their_public_module():
    assert class_name(ProcessJob) == "danaus.job:ProcessJob"
    assert find_class("danaus.job:LocalJob", JobTrait) is LocalJob
