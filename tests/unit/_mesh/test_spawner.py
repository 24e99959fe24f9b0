import sys
from types import MappingProxyType
from typing import Any

import pytest

from danaus._mesh.spawner import BootstrapCommand, default_bootstrap_cmd


def test_a_command_takes_any_mapping_and_copies_it():
    variables: dict[str, str | None] = {"A": None}
    command = BootstrapCommand("/bin/true", None, [], MappingProxyType(variables))

    variables["B"] = "later"

    assert command.env == {"A": None}
    assert command == BootstrapCommand("/bin/true", None, [], {"A": None})


def test_a_commands_variables_may_be_set():
    command = BootstrapCommand("/bin/true", None, [], {})

    command.env = MappingProxyType({"B": "1"})

    assert command.env == {"B": "1"}


@pytest.mark.parametrize("env", [{"A": 1}, {1: "A"}, {"A": b"bytes"}])
def test_variables_that_are_no_text_are_refused_wherever_they_come_in(env: dict[Any, Any]):
    command = BootstrapCommand("/bin/true", None, [], {"A": "as it was"})

    with pytest.raises(TypeError, match="an environment maps names to text or None"):
        BootstrapCommand("/bin/true", None, [], env)
    with pytest.raises(TypeError, match="an environment maps names to text or None"):
        command.with_env(env)
    with pytest.raises(TypeError, match="an environment maps names to text or None"):
        command.env = env
    assert command.env == {"A": "as it was"}


def test_with_env_adds_to_a_copy():
    command = BootstrapCommand("/bin/true", "true", ["x"], {"A": "1", "B": "2"}, inherit_env=False)

    derived = command.with_env({"A": None, "C": "3"})

    assert derived == BootstrapCommand(
        "/bin/true", "true", ["x"], {"A": None, "B": "2", "C": "3"}, inherit_env=False
    )
    assert command.env == {"A": "1", "B": "2"}


def test_the_default_command_is_this_interpreter_and_inherits():
    command = default_bootstrap_cmd()

    assert command.program == sys.executable
    assert command.inherit_env
