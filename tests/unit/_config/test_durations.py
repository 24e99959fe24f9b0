from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danaus._config.durations import MAX_SECONDS, format_duration, parse_duration

LONGEST = MAX_SECONDS * 10**9
SPANS = st.tuples(st.integers(0, 1000), st.sampled_from(["h", "m", "s", "ms", "us", "ns"]))


@given(st.integers(0, LONGEST))
def test_every_duration_reads_back_as_it_was_written(nanoseconds: int) -> None:
    assert parse_duration(format_duration(nanoseconds)) == nanoseconds


@given(st.integers(0, LONGEST))
def test_the_written_form_is_a_fixed_point(nanoseconds: int) -> None:
    written = format_duration(nanoseconds)

    assert format_duration(parse_duration(written)) == written


@given(st.text(alphabet="0123456789. smhdMyµnuwt\t²", max_size=20))
def test_any_text_is_read_in_bounds_or_refused_with_type_error(text: str) -> None:
    try:
        nanoseconds = parse_duration(text)
    except TypeError:
        return

    assert 0 <= nanoseconds <= LONGEST


@given(st.lists(SPANS, max_size=8))
def test_spans_add_up_with_and_without_blanks(spans: list[tuple[int, str]]) -> None:
    texts = [f"{count}{unit}" for count, unit in spans] or ["0s"]

    assert parse_duration("".join(texts)) == sum(parse_duration(text) for text in texts)
    assert parse_duration(" ".join(texts)) == parse_duration("".join(texts))


@pytest.mark.parametrize(
    ("given_text", "written"),
    [
        ("300s", "5m"),
        ("90s", "1m 30s"),
        ("1h30m", "1h 30m"),
        ("1h 30m", "1h 30m"),
        ("5sec", "5s"),
        ("1500ms", "1s 500ms"),
        ("1.5h", "1h 30m"),
        ("0.5us", "500ns"),
        ("2 days 1 hour", "2days 1h"),
        ("1w", "7days"),
        ("400days", "1year 1month 4days 7h 26m 24s"),
        ("  10s ", "10s"),
        ("1µs", "1us"),
        ("0", "0s"),
        ("0s", "0s"),
    ],
)
def test_durations_are_written_in_canonical_form(given_text: str, written: str) -> None:
    assert format_duration(parse_duration(given_text)) == written


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it is empty"),
        ("30", "a unit is missing after 30"),
        ("30 5s", "a unit is missing after 30"),
        ("invalid", "a number is missing before 'invalid'"),
        ("-5s", "a number is missing before '-5s'"),
        ("5parsecs", "'parsecs' is no unit"),
        ("5S", "'S' is no unit"),
        ("5.s", "digits are missing after the decimal point"),
        ("²s", "a number is missing"),
        ("101years", "longer than 100 years"),
        ("9" * 5000 + "s", "longer than 100 characters"),
    ],
)
def test_what_is_no_duration_is_refused_with_the_problem_and_an_example(
    text: str, problem: str
) -> None:
    with pytest.raises(TypeError, match="Invalid duration format") as caught:
        parse_duration(text)

    assert problem in str(caught.value)
    assert "'1h 30m'" in str(caught.value)
    assert len(str(caught.value)) < 300
