import dataclasses
from typing import Any

import pytest

from danaus._core import session_events

KINDS = [
    kind
    for name in session_events.__all__
    if dataclasses.is_dataclass(kind := getattr(session_events, name))
]


@pytest.mark.parametrize("kind", KINDS)
def test_events_and_commands_are_frozen_values_without_a_dict(kind: Any):
    value = kind(**{field.name: 0 for field in dataclasses.fields(kind)})

    assert kind.__dataclass_params__.frozen
    assert not hasattr(value, "__dict__")
    assert value == dataclasses.replace(value)
