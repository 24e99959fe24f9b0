"""What makes the labels and sizes of dimensions valid, and how they are shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index

__all__ = [
    "UnknownDimensionError",
    "check_labels",
    "check_sizes",
    "format_sizes",
    "list_labels",
]

_MOST_LABELS_LISTED = 8


class UnknownDimensionError(ValueError, KeyError):
    """A label that is not a dimension of the thing asked.

    It is a `ValueError` because the argument is wrong, and a `KeyError` because extents and
    points are mappings, whose ``get`` and ``in`` depend on it.
    """

    # KeyError shows the repr of its argument, which would quote the whole sentence.
    __str__ = Exception.__str__


def check_labels(labels: Iterable[str], dimensions: int) -> tuple[str, ...]:
    """Return ``labels`` as a tuple of ``dimensions`` different strings.

    Raises:
        TypeError: ``labels`` is one string, or an element is not a string.
        ValueError: There are too many or too few, or two are equal.
    """
    if isinstance(labels, str):
        raise TypeError(f"labels must be a sequence of names, got the one string {labels!r}")
    checked = tuple(labels)
    if len(checked) != dimensions:
        raise ValueError(
            f"label/size dimension mismatch: {len(checked)} labels ({list_labels(checked)}) "
            f"for {dimensions} dimensions"
        )
    for label in checked:
        if not isinstance(label, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
            raise TypeError(f"dimension name must be a str, got {label!r}")
    if len(set(checked)) != len(checked):
        twice = next(label for label in checked if checked.count(label) > 1)
        raise ValueError(f"Duplicate dimension name {twice!r} in ({list_labels(checked)})")
    return checked


def check_sizes(sizes: Iterable[int], labels: Sequence[str] = ()) -> tuple[int, ...]:
    """Return ``sizes`` as a tuple of ints of at least 1.

    Args:
        sizes: One size a dimension, in ranks.
        labels: Names for the error text; without them dimensions are numbered.

    Raises:
        TypeError: A size is not an integer.
        ValueError: A size is zero or negative.
    """
    checked = tuple(map(index, sizes))
    for axis, size in enumerate(checked):
        if size < 1:
            name = repr(labels[axis]) if axis < len(labels) else str(axis)
            raise ValueError(f"size of dimension {name} must be at least 1, got {size}")
    return checked


def list_labels(labels: Iterable[str]) -> str:
    """Show labels for an error text, ``'hosts', 'gpus'``; only the first few of many."""
    shown = [repr(label) for label in labels]
    if not shown:
        return "no dimensions"
    if len(shown) > _MOST_LABELS_LISTED:
        more = len(shown) - _MOST_LABELS_LISTED
        shown[_MOST_LABELS_LISTED:] = [f"and {more} more"]
    return ", ".join(shown)


def format_sizes(labels: Iterable[str], sizes: Iterable[int]) -> str:
    """Show dimensions with their sizes, ``{hosts: 2, gpus: 8}``."""
    inside = ", ".join(f"{label}: {size}" for label, size in zip(labels, sizes, strict=True))
    return "{" + inside + "}"
