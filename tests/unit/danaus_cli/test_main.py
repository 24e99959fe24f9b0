"""The entry of ``danaus``: commands, exit codes, errors."""

from __future__ import annotations

import subprocess
import sys
import types
from importlib.metadata import version

import pytest

from danaus.errors import SupervisionError
from danaus_cli import main as main_module
from danaus_cli.main import COMMANDS, Command, main


@pytest.fixture
def fail_with(monkeypatch):
    """Install a command ``fail`` that raises what the test says."""

    def install(error):
        def run(arguments):
            raise error

        module = types.ModuleType("danaus_cli_fail")
        vars(module).update(
            DESCRIPTION="fails", EXAMPLE="example", add_arguments=lambda parser: None, run=run
        )
        monkeypatch.setitem(sys.modules, "danaus_cli_fail", module)
        monkeypatch.setattr(main_module, "COMMANDS", (Command("fail", "danaus_cli_fail", "fails"),))

    return install


def test_version_is_the_installed_one(capsys):
    code = main(["--version"])

    assert code == 0
    assert capsys.readouterr().out == f"danaus {version('danaus')}\n"


def test_help_lists_every_command(capsys):
    code = main(["--help"])

    assert code == 0
    out = capsys.readouterr().out
    assert all(command.name in out for command in COMMANDS)


def test_help_imports_no_command():
    probe = (
        "import sys; from danaus_cli.main import main; main(['--help'])\n"
        "sys.exit(', '.join(m for m in sys.modules if m == 'numpy' or '_cli.demo' in m))"
    )

    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=False
    )

    assert done.stderr == "\n"


def test_help_of_a_command_shows_defaults_and_an_example(capsys):
    code = main(["demo", "--help"])

    assert code == 0
    out = capsys.readouterr().out
    assert "hosts that train (default: 4)" in out
    assert "default: False" not in out
    assert "danaus demo --kill-one" in out


def test_no_command_prints_the_help_and_is_a_misuse(capsys):
    assert main([]) == 2
    assert "commands:" in capsys.readouterr().out


def test_an_unknown_command_is_a_misuse_that_names_the_known_ones(capsys):
    assert main(["dmeo"]) == 2
    assert capsys.readouterr().err == (
        "danaus: there is no command 'dmeo'. Did you mean 'demo'? There are: demo, worker, key.\n"
    )


@pytest.mark.parametrize(
    "error",
    [
        SupervisionError("mesh 'trainers' has died"),
        FileNotFoundError("mesh 'trainers' has died"),
        RuntimeError("mesh 'trainers' has died"),
    ],
)
def test_a_failure_is_one_line_without_traceback(fail_with, capsys, error):
    fail_with(error)

    code = main(["fail"])

    assert code == 1
    assert capsys.readouterr().err == "danaus fail: mesh 'trainers' has died\n"


@pytest.mark.parametrize("words", [["--debug", "fail"], ["fail", "--debug"]])
def test_debug_shows_the_traceback_of_a_failure(fail_with, words):
    fail_with(RuntimeError("dead"))

    with pytest.raises(RuntimeError, match="dead"):
        main(words)


def test_a_mistake_of_ours_is_not_hidden(fail_with):
    fail_with(KeyError("oops"))

    with pytest.raises(KeyError):
        main(["fail"])


def test_an_interrupt_ends_with_130(fail_with, capsys):
    fail_with(KeyboardInterrupt())

    assert main(["fail"]) == 130
    assert capsys.readouterr().err == "danaus: interrupted\n"


def test_a_reader_that_leaves_ends_the_command_quietly():
    probe = """
import os, sys, types
from danaus_cli import main

command = types.ModuleType("loud")
command.DESCRIPTION = command.EXAMPLE = ""
command.add_arguments = lambda parser: None
command.run = lambda arguments: print("x" * 100_000) or 0
sys.modules["loud"] = command
main.COMMANDS = (main.Command("loud", "loud", "talks to nobody"),)
reader, writer = os.pipe()
os.close(reader)
os.dup2(writer, 1)
sys.exit(main.main(["loud"]))
"""

    done = subprocess.run(
        [sys.executable, "-c", probe], stderr=subprocess.PIPE, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (141, "")
