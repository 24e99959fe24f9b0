"""The text of the demo."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import danaus_cli.demo.corpus as corpus_module
from danaus_cli.demo.corpus import (
    ENOUGH_CHARACTERS,
    SYMBOLS,
    Corpus,
    TextFile,
    decode,
    encode,
    find_text,
    load_corpus,
)


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E) | st.just("\n")))
def test_printable_ascii_and_line_ends_survive_coding(text):
    assert decode(encode(text)) == text


@given(st.text())
def test_every_character_becomes_one_symbol_of_the_alphabet(text):
    symbols = encode(text)

    assert len(symbols) == len(text)
    assert all(symbol < SYMBOLS for symbol in symbols)


def test_what_is_outside_the_alphabet_shows_as_a_question_mark():
    assert decode(encode("naïve\t→x")) == "na?ve??x"


def test_the_text_found_is_our_own_first_and_enough():
    files = find_text()

    assert files[0].origin == "danaus"
    assert Path(corpus_module.__file__) in [file.path for file in files]
    assert sum(file.characters for file in files) >= ENOUGH_CHARACTERS


def test_the_standard_library_is_left_out_when_our_own_text_is_enough():
    assert {file.origin for file in find_text(enough=1000)} == {"danaus"}


def test_a_folder_that_was_named_is_all_that_is_read(tmp_path):
    (tmp_path / "poem.txt").write_text("x" * 30)

    assert find_text(str(tmp_path)) == [TextFile(tmp_path / "poem.txt", "given", 30)]


def test_no_file_of_a_hidden_folder_is_read(tmp_path):
    for name in ("a.py", "notes.md", "b.log", ".venv/c.py", "deep/d.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")

    found = corpus_module._texts(tmp_path)

    assert [path.name for path in found] == ["a.py", "d.py", "notes.md"]


def test_a_twentieth_of_the_text_is_held_out(tmp_path):
    path = tmp_path / "text.py"
    path.write_text("".join(chr(ord("a") + block % 26) * 2048 for block in range(40)))

    corpus = load_corpus([TextFile(path, "danaus", 40 * 2048)])

    assert len(corpus.training) == 38 * 2048
    assert decode(corpus.held_out) == "k" * 2048 + "e" * 2048


def test_too_little_text_is_refused(tmp_path):
    path = tmp_path / "text.py"
    path.write_text("x" * 100)

    with pytest.raises(
        ValueError, match="100 characters are too few to learn from; at least 22528"
    ):
        load_corpus([TextFile(path, "danaus", 100)])


def test_a_batch_holds_what_stands_before_each_target():
    text = np.arange(90, dtype=np.uint8)
    corpus = Corpus(text, text)

    contexts, targets = corpus.batch((0, 1, 2), 50, 4)

    assert contexts.shape == (50, 4)
    assert (contexts == targets[:, None] - np.array([4, 3, 2, 1])).all()
    assert targets.max() > 80


def test_the_same_key_draws_the_same_batch_and_another_does_not():
    text = np.arange(90, dtype=np.uint8)
    corpus = Corpus(text, text)

    first, again, other = (corpus.batch(key, 20, 4)[1].tolist() for key in [(1, 2), (1, 2), (1, 3)])

    assert again == first
    assert other != first


def test_an_examination_is_spread_over_all_held_out_text():
    text = np.arange(90, dtype=np.uint8)

    _, targets = Corpus(text[:0], text).examination(1000, 4)

    assert targets.tolist() == list(range(4, 90))
