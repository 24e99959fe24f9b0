import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danaus._observe.template import make_template, resemble

words = st.sampled_from(["loss", "3", "3.1", "3.25", "rank=1", "rank=2,", "", "node-a", "node-b"])
lines = st.lists(words, max_size=8).map(" ".join)


@given(samples=st.lists(lines, min_size=1, max_size=5), more=st.booleans())
def test_every_sample_fits_its_template(samples: list[str], more: bool):
    template = make_template(samples, more=more)

    # A hole may be empty, and then has a space less beside it.
    fixed = [re.escape(part.strip(" ")) for part in re.split("<<.*?>>", template)]
    for sample in samples:
        assert re.fullmatch(" *.*".join(fixed), sample.strip(" ")), template


@given(line=st.text(), count=st.integers(1, 4))
def test_equal_samples_are_their_own_template(line: str, count: int):
    assert make_template([line] * count) == line


@pytest.mark.parametrize(
    ("samples", "template"),
    [
        (["rank 0 is up", "rank 1 is up"], "rank <<0, 1>> is up"),
        (["loss=3.21, lr=1", "loss=3.45, lr=1"], "loss=<<3.21, 3.45>>, lr=1"),
        (["on gpu0", "on gpu1"], "on gpu<<0, 1>>"),
        (["{gpus: 0/2}] hello", "{gpus: 1/2}] hello"], "{gpus: <<0, 1>>/2}] hello"),
        (["took 1.5s", "took 1.7s"], "took <<1.5, 1.7>>s"),
        (["in foo.bar", "in foo.baz"], "in foo.<<bar, baz>>"),
        (["at 0xff", "at 0x2f"], "at <<0xff, 0x2f>>"),
        (["10 ok", "100 ok"], "<<10, 100>> ok"),
        (["1 item", "2 items"], "<<1, 2>> <<item, items>>"),
        (["saw [1] here", "saw [1, 2] here"], "saw [1<<, , 2>>] here"),
        (["a  b", "a  c"], "a  <<b, c>>"),
        (["took s", "took 3 s"], "took <<, 3>> s"),
        (["0", "1", "0"], "<<0, 1>>"),
    ],
)
def test_hole_holds_what_differs_and_cuts_no_word(samples: list[str], template: str):
    assert make_template(samples) == template


def test_hole_tells_that_there_is_more():
    assert make_template(["rank 0", "rank 1"], more=True) == "rank <<0, 1, ...>>"


def test_hole_of_long_variants_shows_two():
    samples = ["at " + letter * 50 for letter in "abc"]

    assert make_template(samples) == f"at <<{'a' * 50}, {'b' * 50}, ...>>"


def test_lines_of_very_many_words_are_aligned_at_their_ends():
    middle = [str(number) for number in range(300)]
    samples = [" ".join(["start", *middle[:count], "end"]) for count in (250, 251)]

    template = make_template(samples)

    assert template.startswith("start 0 1 ")
    assert template.endswith(" end")
    assert "<<, 250>>" in template


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("loading shard a of the data", "loading shard b of the data"),
        ("a line that is a bit longer", "a line that is a bit longer!"),
        ("worker took one step less than before", "worker took one step than before"),
        ("", ""),
    ],
)
def test_near_lines_resemble(one: str, other: str):
    assert resemble(one, other)
    assert resemble(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("connection opened", "connection closed"),
        ("hello alice", "hello bob"),
        ("short", "short but then much more"),
        ("a b", "ab"),
        ("", "a"),
    ],
)
def test_other_lines_do_not_resemble(one: str, other: str):
    assert not resemble(one, other)
    assert not resemble(other, one)


@given(line=lines)
def test_line_resembles_itself(line: str):
    assert resemble(line, line)
