"""How is a group of similar lines written as one?

What all the lines share stands as it is; where they differ stands a hole that lists what they
said: ``epoch 3 on node-<<a, b>> took <<1.5, 1.7>> s``.

Lines are compared word by word (a word ends at a space). Lines of as many words are laid side by
side; the words of others are aligned by their longest common parts. A hole is then narrowed to
what differs within a word, but never cuts a number or a name.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["make_template", "resemble"]

_MAX_HOLE = 60  # characters of variants in a hole, then "..."
_MAX_ALIGNED = 200  # words; alignment costs up to the square of it
_MAX_DIFFERENCE = 0.15  # share of its characters that may differ in a similar line


def resemble(one: str, other: str) -> bool:
    """Tell whether two lines are so near that they can share a template.

    The measure is an upper bound of their edit distance, taken in one pass: in each pair of words
    the characters between the common start and the common end.

    Example:
        >>> resemble("loaded shard a of the data", "loaded shard b of the data")
        True
        >>> resemble("connection opened", "connection closed")
        False
    """
    allowed = int(max(len(one), len(other)) * _MAX_DIFFERENCE)
    if abs(len(one) - len(other)) > allowed:
        return False
    ours, theirs = one.split(" "), other.split(" ")
    if len(ours) != len(theirs):
        return _difference(one, other) <= allowed
    for mine, yours in zip(ours, theirs, strict=True):
        if mine != yours:
            allowed -= _difference(mine, yours)
            if allowed < 0:
                return False
    return True


def make_template(samples: Sequence[str], *, more: bool = False) -> str:
    """Write similar lines as one line with holes.

    Args:
        samples: At least one line; the order is kept in the holes.
        more: Whether the group has lines of which there is no sample; then no hole is complete.

    Example:
        >>> make_template(["rank 0 of 8 is up", "rank 1 of 8 is up"])
        'rank <<0, 1>> of 8 is up'
    """
    if len(samples) == 1:
        return samples[0]
    lines = [line.split(" ") for line in samples]
    columns = _aligned(lines) if len(set(map(len, lines))) > 1 else list(zip(*lines, strict=True))
    return " ".join(text for column in columns if (text := _merge(column, more=more)) is not None)


def _merge(column: Sequence[str | None], *, more: bool) -> str | None:
    """Write one column of words: the word that all share, or a hole. None: nobody has a word."""
    if len(set(column)) == 1:
        return column[0]
    variants = list(dict.fromkeys(word or "" for word in column))
    start = _common_start(variants)
    end = _common_end([word[start:] for word in variants])
    first = variants[0]
    shown: list[str] = []
    room = _MAX_HOLE
    for word in variants:
        inner = word[start : len(word) - end]
        room -= len(inner)
        if room < 0 and len(shown) > 1:
            more = True
            break
        shown.append(inner)
    if more:
        shown.append("...")
    return f"{first[:start]}<<{', '.join(shown)}>>{first[len(first) - end :]}"


def _aligned(lines: list[list[str]]) -> list[list[str | None]]:
    """Lay lines of unlike lengths into columns, by the words that they all share in order."""
    shared = lines[0]
    for words in lines[1:]:
        shared = _shared(shared, words)
    columns: list[list[str | None]] = []
    positions = [0] * len(lines)
    for anchor in [*shared, None]:
        column: list[str | None] = []
        for number, words in enumerate(lines):
            start = positions[number]
            stop = len(words) if anchor is None else words.index(anchor, start)
            column.append(" ".join(words[start:stop]) if stop > start else None)
            positions[number] = stop + 1
        columns.append(column)
        if anchor is not None:
            columns.append([anchor])
    return columns


def _shared(ours: list[str], theirs: list[str]) -> list[str]:
    """Return the words that two lines share, in order."""
    if max(len(ours), len(theirs)) > _MAX_ALIGNED:
        shortest = min(len(ours), len(theirs))
        start = 0
        while start < shortest and ours[start] == theirs[start]:
            start += 1
        end = 0
        while end < shortest - start and ours[-1 - end] == theirs[-1 - end]:
            end += 1
        return ours[:start] + ours[len(ours) - end :]
    from difflib import SequenceMatcher

    blocks = SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks()
    return [word for block in blocks for word in ours[block.a : block.a + block.size]]


def _difference(one: str, other: str) -> int:
    """Return the number of characters between the common start and the common end."""
    shortest = min(len(one), len(other))
    start = 0
    while start < shortest and one[start] == other[start]:
        start += 1
    end = 0
    while end < shortest - start and one[-1 - end] == other[-1 - end]:
        end += 1
    return max(len(one), len(other)) - start - end


def _common_start(words: Sequence[str]) -> int:
    """Return the length of the common start, shortened so that it cuts no number and no name."""
    low, high = min(words), max(words)
    length = 0
    while length < len(low) and low[length] == high[length]:
        length += 1
    while length and any(_inside(word, length) for word in words):
        length -= 1
    return length


def _common_end(words: Sequence[str]) -> int:
    return _common_start([word[::-1] for word in words])


def _inside(word: str, position: int) -> bool:
    """Tell whether a cut at the position would part a number or a name."""
    if position >= len(word):
        return False
    before, after = word[position - 1], word[position]
    if before in _NUMBER and after in _NUMBER:
        return True
    return before.isalnum() and after.isalpha()  # "gpu|0" may be cut, "0|xff" may not


_NUMBER = frozenset("0123456789.")
