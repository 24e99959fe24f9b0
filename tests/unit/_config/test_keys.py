from __future__ import annotations

import pytest

from danaus._config.keys import KEYS, Key, find_key


@pytest.mark.parametrize("key", KEYS.values(), ids=str)
def test_a_default_is_a_canonical_value_of_its_kind(key: Key) -> None:
    assert key.kind.accept_plain(key.default) == key.default
    assert key.kind.accept(key.kind.public(key.default)) == key.default


@pytest.mark.parametrize("key", KEYS.values(), ids=str)
def test_a_key_without_effect_says_so_and_no_other_does(key: Key) -> None:
    assert key.doc.startswith("Accepted for compatibility: ") is not key.has_effect
    assert key.doc.endswith(".")


def test_every_key_has_an_environment_variable_of_its_own() -> None:
    assert len({key.env for key in KEYS.values()}) == len(KEYS)
    assert KEYS["tail_log_lines"].env == "DANAUS_TAIL_LOG_LINES"
    assert KEYS["pyspy_bin"].env == "PYSPY_BIN"


def test_a_declaration_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="'tail_log_lines' is a declaration"):
        KEYS["tail_log_lines"].default = 5


def test_an_unknown_key_is_refused_with_the_nearest_one_and_the_whole_list() -> None:
    with pytest.raises(ValueError, match="unknown config key 'tail_log_line'") as caught:
        find_key("tail_log_line")

    text = str(caught.value)
    assert "Did you mean 'tail_log_lines'?" in text
    assert all(name in text for name in KEYS)
    assert len(text) < 2048


def test_a_key_like_no_other_is_refused_without_a_suggestion() -> None:
    with pytest.raises(ValueError, match=r"unknown config key 'xyzzy'\. Accepted keys: "):
        find_key("xyzzy")


def test_a_long_unknown_key_is_not_shown_whole() -> None:
    with pytest.raises(ValueError, match="unknown config key") as caught:
        find_key("x" * 100_000)

    assert len(str(caught.value)) < 2048
