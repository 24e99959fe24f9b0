from __future__ import annotations

import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danaus.shape import Selection

ZERO = "Range(Range(0, Some(1), 1), {})"
ONE = "Range(Range(1, Some(2), 1), {})"


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ("*", "All(True)"),
        (" ? ", "Any(True)"),
        ("1", ONE.format("True")),
        ("1:3", "Range(Range(1, Some(3), 1), True)"),
        ("1:3:2", "Range(Range(1, Some(3), 2), True)"),
        ("1:", "Range(Range(1, None, 1), True)"),
        (":3", "Range(Range(0, Some(3), 1), True)"),
        ("::2", "Range(Range(0, None, 2), True)"),
        (":", "Range(Range(0, None, 1), True)"),
        ("*,?", "All(Any(True))"),
        ("((*))", "All(True)"),
        ("0 | 1", f"Union({ZERO.format('True')}, {ONE.format('True')})"),
        ("0 & 1", f"Intersection({ZERO.format('True')}, {ONE.format('True')})"),
        (
            "0|1&*",
            f"Union({ZERO.format('True')}, Intersection({ONE.format('True')}, All(True)))",
        ),
        ("?|*|?", "Union(Union(Any(True), All(True)), Any(True))"),
        ("0,*|?", f"Union({ZERO.format('All(True)')}, Any(True))"),
        ("(0|1),*", f"Union({ZERO.format('All(True)')}, {ONE.format('All(True)')})"),
        ("*,(0|1)", f"All(Union({ZERO.format('True')}, {ONE.format('True')}))"),
        ("(0,1),?", ZERO.format(ONE.format("Any(True)"))),
        (
            "(*, 1:3) & (0, *)",
            f"Intersection(All(Range(Range(1, Some(3), 1), True)), {ZERO.format('All(True)')})",
        ),
    ],
)
def test_expressions_are_read(expression: str, shown: str):
    assert repr(Selection.from_string(expression)) == shown


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("", r"expected '\*', '\?', a number, a range or '\(' after '', found the end"),
        ("(*", r"expected '\)' after '\( \*', found the end"),
        ("* *", r"expected an operator or the end after '\*', found '\*'"),
        ("1|", r"after '1 \|', found the end"),
        ("-1", "found '-'"),
        ("all", "found 'a'"),
        ("[0]", r"found '\['"),
        ("0..3", r"after '0', found '\.'"),
        ("1:2:0", "expected a step of at least 1"),
        ("1::", "expected a step of at least 1"),
        ("(" * 21 + "*" + ")" * 21, "at most 20 nested parentheses"),
    ],
)
def test_what_follows_no_rule_is_a_value_error(expression: str, text: str):
    with pytest.raises(ValueError, match="cannot read selection") as raised:
        Selection.from_string(expression)

    assert raised.match(text)


@given(st.text("0123*?:,()|& []-x", max_size=12))
def test_any_text_is_read_or_refused(expression: str):
    spread = " ".join(re.findall(r"\d+|\S", expression))

    try:
        selection = Selection.from_string(expression)
    except ValueError:
        with pytest.raises(ValueError, match="cannot read selection"):
            Selection.from_string(spread)
    else:
        assert Selection.from_string(spread) == selection


@pytest.mark.parametrize("mark", [",", "|", "&"])
def test_the_longest_expression_is_read_shown_compared_and_pickled(mark: str):
    selection = Selection.from_string(mark.join("*" * 100))

    assert repr(selection).count("All") == 100
    assert pickle.loads(pickle.dumps(selection)) == selection


def test_a_longer_expression_is_a_value_error():
    with pytest.raises(ValueError, match="it has 201 tokens, at most 200 are read"):
        Selection.from_string(",".join("*" * 101))


def test_all_and_any_are_selections():
    assert Selection.all() == Selection.from_string("*")
    assert Selection.any() == Selection.from_string("?")
    assert (repr(Selection.all()), repr(Selection.any())) == ("All(True)", "Any(True)")


def test_selections_survive_pickling_with_their_hash():
    selection = Selection.from_string("(*, 1:3) | 0")
    copy = pickle.loads(pickle.dumps(selection))

    assert copy == selection
    assert hash(copy) == hash(selection)
    assert copy != Selection.from_string("(*, 1:4) | 0")
    assert copy != repr(copy)
