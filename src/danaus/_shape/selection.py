"""Which ranks of a mesh a message goes to, written as an expression.

Grammar, loosest first; blanks mean nothing::

    union        = intersection {"|" intersection}
    intersection = path {"&" path}
    path         = step {"," step}
    step         = "*" | "?" | number | [number] ":" [number] [":" number] | "(" union ")"

A path has a step for each dimension, outermost first: ``*`` for all, ``?`` for any one, a
number or a range. A parenthesis in front of a comma continues each of its alternatives:
``(0|2),*`` is ``0,* | 2,*``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import reduce

__all__ = ["Selection"]

# Anything else but blanks is a token too, which no rule accepts.
_TOKEN = re.compile(r"\d+|\S")

# People write a dozen tokens and two parentheses. Trees are read, shown, compared and pickled by
# recursion, so their depth is bounded here rather than by the interpreter in mid-flight.
_MOST_TOKENS = 200
_DEEPEST_NESTING = 20


class Selection:
    """An immutable expression that says which ranks are meant.

    Example:
        >>> Selection.from_string("(*, 1:3) | (0, ?)")
        Union(All(Range(Range(1, Some(3), 1), True)), Range(Range(0, Some(1), 1), Any(True)))
    """

    __slots__ = ("_arguments", "_kind")

    _kind: str
    _arguments: tuple[Selection | str, ...]

    def __init__(self, kind: str, arguments: Sequence[Selection | str] = ()) -> None:
        """Make a node of an expression; users write expressions with `from_string`."""
        self._kind = kind
        self._arguments = tuple(arguments)

    @classmethod
    def from_string(cls, expression: str) -> Selection:
        """Read an expression.

        Raises:
            ValueError: It does not follow the grammar; the text says where.
        """
        return _Parser(expression).parse()

    @classmethod
    def all(cls) -> Selection:
        """Return the selection of every rank."""
        return cls("All", [_EVERYTHING])

    @classmethod
    def any(cls) -> Selection:
        """Return the selection of one rank, whichever."""
        return cls("Any", [_EVERYTHING])

    def then(self, rest: Selection) -> Selection:
        """Return the selection that goes on with ``rest`` in the dimensions below."""
        if self == _EVERYTHING:
            return rest
        continued = [
            argument.then(rest) if isinstance(argument, Selection) else argument
            for argument in self._arguments
        ]
        return Selection(self._kind, continued)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Selection):
            return NotImplemented
        return self._kind == other._kind and self._arguments == other._arguments

    def __hash__(self) -> int:
        return hash((self._kind, self._arguments))

    def __reduce__(self) -> tuple[type[Selection], tuple[str, tuple[Selection | str, ...]]]:
        return Selection, (self._kind, self._arguments)

    def __repr__(self) -> str:
        if not self._arguments:
            return self._kind
        return f"{self._kind}({', '.join(map(str, self._arguments))})"


_EVERYTHING = Selection("True")


class _Parser:
    """A recursive descent over the tokens of one expression, used once."""

    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._tokens = _TOKEN.findall(expression)
        self._next = 0
        self._depth = 0

    def parse(self) -> Selection:
        if len(self._tokens) > _MOST_TOKENS:
            raise ValueError(
                f"cannot read selection {self._expression[:40]!r}…: it has {len(self._tokens)} "
                f"tokens, at most {_MOST_TOKENS} are read"
            )
        selection = self._union()
        if self._next < len(self._tokens):
            raise self._error("an operator or the end")
        return selection

    def _union(self) -> Selection:
        return reduce(_union_of, self._separated("|", self._intersection))

    def _intersection(self) -> Selection:
        return reduce(_intersection_of, self._separated("&", self._path))

    def _path(self) -> Selection:
        *before, rest = self._separated(",", self._step)
        for step in reversed(before):
            rest = step.then(rest)
        return rest

    def _separated(self, mark: str, operand: Callable[[], Selection]) -> list[Selection]:
        operands = [operand()]
        while self._take(mark):
            operands.append(operand())
        return operands

    def _step(self) -> Selection:
        if self._take("*"):
            return Selection.all()
        if self._take("?"):
            return Selection.any()
        if self._take("("):
            return self._parenthesis()
        return self._range()

    def _parenthesis(self) -> Selection:
        self._depth += 1
        if self._depth > _DEEPEST_NESTING:
            raise self._error(f"at most {_DEEPEST_NESTING} nested parentheses")
        inside = self._union()
        self._depth -= 1
        if not self._take(")"):
            raise self._error("')'")
        return inside

    def _range(self) -> Selection:
        start = self._number()
        if not self._take(":"):
            if start is None:
                raise self._error("'*', '?', a number, a range or '('")
            return _range_of(start, start + 1, 1)
        stop = self._number()
        step: int | None = 1
        if self._take(":"):
            step = self._number()
            if not step:
                raise self._error("a step of at least 1")
        return _range_of(start or 0, stop, step)

    def _number(self) -> int | None:
        token = self._ahead()
        if not token.isdecimal():
            return None
        self._next += 1
        return int(token)

    def _take(self, mark: str) -> bool:
        if self._ahead() != mark:
            return False
        self._next += 1
        return True

    def _ahead(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _error(self, expected: str) -> ValueError:
        before = " ".join(self._tokens[: self._next])
        found = repr(self._ahead()) if self._ahead() else "the end"
        return ValueError(
            f"cannot read selection {self._expression!r}: expected {expected} after {before!r}, "
            f"found {found}"
        )


def _union_of(left: Selection, right: Selection) -> Selection:
    return Selection("Union", [left, right])


def _intersection_of(left: Selection, right: Selection) -> Selection:
    return Selection("Intersection", [left, right])


def _range_of(start: int, stop: int | None, step: int) -> Selection:
    bound = "None" if stop is None else f"Some({stop})"
    return Selection("Range", [f"Range({start}, {bound}, {step})", _EVERYTHING])
