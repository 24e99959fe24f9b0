"""The arguments of ``danaus demo``."""

from __future__ import annotations

import argparse
import importlib.util

import pytest

from danaus.errors import MissingExtra
from danaus_cli.demo import command


def parse(*words):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args(words)


def test_the_defaults_are_four_trainers_and_one_loader():
    arguments = parse()

    assert (arguments.trainers, arguments.loaders, arguments.seed) == (4, 1, 0)
    assert not arguments.kill_one
    assert not arguments.json


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--steps", "0"), "argument --steps: 0 is not between 1 and 1000000"),
        (("--trainers", "65"), "argument --trainers: 65 is not between 1 and 64"),
        (("--loaders", "3"), "argument --loaders: 3 is not between 1 and 2"),
        (("--seed", "-1"), "argument --seed: -1 is not between 0"),
        (("--text", "/nowhere"), "argument --text: '/nowhere' is not a folder"),
        (("--steps", "ten"), "argument --steps: 'ten' is not a whole number"),
    ],
)
def test_a_value_that_cannot_be_is_refused(words, text, capsys):
    with pytest.raises(SystemExit) as leave:
        parse(*words)

    assert leave.value.code == 2
    assert text in capsys.readouterr().err


def test_a_folder_of_text_becomes_an_absolute_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert parse("--text", ".").text == str(tmp_path)


def test_killing_the_only_trainer_is_refused(capsys):
    code = command.run(parse("--kill-one", "--trainers", "1"))

    assert code == 2
    assert "use --trainers 2 or more" in capsys.readouterr().err


def test_without_numpy_the_error_names_the_extra(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    with pytest.raises(MissingExtra, match=r"pip install 'danaus\[demo\]'"):
        command.run(parse())
