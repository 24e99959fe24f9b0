"""How is a length of time written in the configuration, and read back?

The grammar is that of the Rust crate *humantime*: one or more spans, each a number and a unit,
with or without blanks between them: ``30s``, ``1h 30m``, ``1h30m``, ``500ms``, ``1.5h``. Units are
case-sensitive, because ``m`` is a minute and ``M`` a month. A bare ``0`` needs no unit.

Times are whole nanoseconds in between, so that reading back what was written loses nothing.
The scanner is written out by hand: this module is on the import path of every process, where
compiling one regular expression costs more than all the rest of it.
"""

from __future__ import annotations

__all__ = ["MAX_SECONDS", "format_duration", "parse_duration"]

MAX_SECONDS = 3_155_760_000
"""Longest duration, seconds: 100 years of 365.25 days; a lock can be waited for that long."""

# In characters; the longest canonical text has 52.
_MAX_TEXT = 100
_SHOWN_TEXT = 40
_SECOND = 1_000_000_000

# Unit lengths in nanoseconds. A month is 30.44 days and a year 365.25 days, as in humantime.
_UNITS = {
    spelling: length
    for length, spellings in (
        (1, "nanos nsec ns"),
        (1_000, "micros usec us µs"),
        (1_000_000, "millis msec ms"),
        (_SECOND, "seconds second secs sec s"),
        (60 * _SECOND, "minutes minute mins min m"),
        (3_600 * _SECOND, "hours hour hrs hr h"),
        (86_400 * _SECOND, "days day d"),
        (604_800 * _SECOND, "weeks week wks wk w"),
        (2_630_016 * _SECOND, "months month M"),
        (31_557_600 * _SECOND, "years year yrs yr y"),
    )
    for spelling in spellings.split()
}

# What is written: longest first, no weeks; the calendar units are words and take a plural.
_WRITTEN = (
    ("year", 31_557_600 * _SECOND),
    ("month", 2_630_016 * _SECOND),
    ("day", 86_400 * _SECOND),
    ("h", 3_600 * _SECOND),
    ("m", 60 * _SECOND),
    ("s", _SECOND),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
)


def parse_duration(text: str) -> int:
    """Read a duration such as ``"1h 30m"``.

    Args:
        text: Spans of a number and a unit; decimals are cut at the nanosecond.

    Returns:
        Nanoseconds, ``0 <= n <= MAX_SECONDS * 10**9``.

    Raises:
        TypeError: The text is no duration. (Not ValueError: programs written for the compatible
            interface catch TypeError for it.)

    Example:
        >>> parse_duration("1m 30s")
        90000000000
    """
    if len(text) > _MAX_TEXT:
        raise _invalid(text, f"it is longer than {_MAX_TEXT} characters")
    rest = text.strip()
    if not rest:
        raise _invalid(text, "it is empty")
    if rest == "0":
        return 0
    total = 0
    while rest:
        whole, decimals, unit, rest = _split_span(text, rest)
        length = _UNITS[unit]
        total += int(whole) * length
        if decimals:
            total += int(decimals) * length // 10 ** len(decimals)
    if total > MAX_SECONDS * _SECOND:
        raise _invalid(text, "it is longer than 100 years")
    return total


def format_duration(nanoseconds: int) -> str:
    """Write a duration in its canonical form, largest unit first.

    Args:
        nanoseconds: Zero or more.

    Returns:
        Text that `parse_duration` reads back as the same number.

    Example:
        >>> format_duration(parse_duration("90s"))
        '1m 30s'
    """
    spans: list[str] = []
    for unit, length in _WRITTEN:
        count, nanoseconds = divmod(nanoseconds, length)
        if count:
            plural = "s" if count > 1 and length >= 86_400 * _SECOND else ""
            spans.append(f"{count}{unit}{plural}")
    return " ".join(spans) or "0s"


def _split_span(text: str, rest: str) -> tuple[str, str, str, str]:
    """Split the first span off ``rest``: whole part, decimals, unit, what remains."""
    end = _end_of_digits(rest, 0)
    whole, decimals = rest[:end], ""
    if not whole:
        raise _invalid(text, f"a number is missing before {rest[:10]!r}")
    if rest.startswith(".", end):
        start, end = end + 1, _end_of_digits(rest, end + 1)
        decimals = rest[start:end]
        if not decimals:
            raise _invalid(text, "digits are missing after the decimal point")
    tail = rest[end:].lstrip()
    end = 0
    while end < len(tail) and tail[end].isalpha():
        end += 1
    unit = tail[:end]
    if not unit:
        raise _invalid(text, f"a unit is missing after {whole}")
    if unit not in _UNITS:
        raise _invalid(text, f"{unit!r} is no unit")
    return whole, decimals, unit, tail[end:].lstrip()


def _end_of_digits(text: str, start: int) -> int:
    """Index of the first character from ``start`` that is not an ASCII digit."""
    end = start
    # str.isdigit would let through superscripts, which int() refuses.
    while end < len(text) and "0" <= text[end] <= "9":
        end += 1
    return end


def _invalid(text: str, problem: str) -> TypeError:
    """The error for a text that is no duration."""
    shown = text if len(text) <= _SHOWN_TEXT else text[:_SHOWN_TEXT] + "..."
    return TypeError(
        f"Invalid duration format {shown!r}: {problem}. "
        "Write numbers with units, such as '500ms', '30s', '5m' or '1h 30m'."
    )
