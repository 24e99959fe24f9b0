"""Names of things as values: one of its kind, or one of many."""

from __future__ import annotations

from typing import Any

from danaus._runtime.identity import unique

__all__ = ["ProcId", "Uid"]

# Written out: to make two dataclasses would take a fiftieth of the time that `import danaus.actor`
# may take.


class Uid:
    """The name of something: a label for the only one of its kind, or a label and a random part.

    Args:
        label: What people call it: a letter, then letters, digits, ``_``, ``.`` and ``-``. None
            where it is anonymous.
        value: The random part; None for the only one of its kind.

    Raises:
        ValueError: There is neither, or the label is none.

    Example:
        >>> Uid.from_string(str(Uid.instance("worker"))).label
        'worker'
    """

    __slots__ = ("_label", "_value")

    def __init__(self, label: str | None, value: str | None = None) -> None:
        if label is None and value is None:
            raise ValueError("a Uid needs a label, a value, or both")
        if label is not None and not _is_label(label):
            raise ValueError(
                "a label begins with a letter and has letters, digits, '_', '.' and '-'; got "
                f"{label!r}"
            )
        self._label = label
        self._value = value

    @property
    def label(self) -> str | None:
        """What people call it."""
        return self._label

    @staticmethod
    def anonymous() -> Uid:
        """One of many, without a label."""
        return Uid(None, unique())

    @staticmethod
    def instance(label: str) -> Uid:
        """One of many with that label."""
        return Uid(label, unique())

    @staticmethod
    def singleton(label: str) -> Uid:
        """The only one with that label."""
        return Uid(label)

    @staticmethod
    def from_string(text: str) -> Uid:
        """The inverse of ``str``.

        Raises:
            ValueError: It is not such a text.
        """
        head, bracket, value = text.partition("<")
        if not bracket:
            return Uid(text)
        if not value.endswith(">") or not value[:-1].isalnum() or (head and head[-1] != "-"):
            raise ValueError(f"{text!r} is not the text of a Uid, such as 'label-<value>'")
        return Uid(head[:-1] or None, value[:-1])

    @property
    def is_instance(self) -> bool:
        """True for one of many."""
        return self._value is not None

    @property
    def is_singleton(self) -> bool:
        """True for the only one of its kind."""
        return self._value is None

    def __str__(self) -> str:
        if self._value is None:
            return str(self._label)
        return f"<{self._value}>" if self._label is None else f"{self._label}-<{self._value}>"

    def __repr__(self) -> str:
        return f"Uid({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Uid) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> Any:
        return Uid, (self._label, self._value)


def _is_label(text: str) -> bool:
    return text.isascii() and text.translate(_MARKS).isalnum() and not text[0].isdigit()


_MARKS = str.maketrans("_.-", "aaa")


class ProcId:
    """The name of a process."""

    __slots__ = ("_uid",)

    def __init__(self, uid: Uid) -> None:
        self._uid = uid

    @property
    def uid(self) -> Uid:
        """The name as such."""
        return self._uid

    def __str__(self) -> str:
        return str(self._uid)

    def __repr__(self) -> str:
        return f"ProcId({self._uid!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProcId) and self._uid == other._uid

    def __hash__(self) -> int:
        return hash((ProcId, self._uid))

    def __reduce__(self) -> Any:
        return ProcId, (self._uid,)
