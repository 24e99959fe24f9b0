"""Write the table of frames in docs/reference/wire.md from the declarations of their kinds.

`python tools/make_wire_reference.py` writes the table between the page's marks; with `--check` it
writes nothing, and says by its exit code whether the page is as it would be written.
"""

# ruff: noqa: INP001  # scripts, no package

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from itertools import accumulate, pairwise
from pathlib import Path

from danaus._wire import kinds

__all__ = ["main", "page"]

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "wire.md"

MARKED = re.compile(r"(?<=<!-- kinds -->\n).*(?=<!-- /kinds -->)", re.DOTALL)


def page() -> str:
    """The page with its table as it should be."""
    table = "".join(["| kind | name | routing |\n|---|---|---|\n", *_rows()])
    return MARKED.sub(lambda _match: f"\n{table}\n", PAGE.read_text(encoding="utf-8"))


def _rows() -> Iterator[str]:
    """One for each constant with a number and a docstring."""
    body = ast.parse(Path(str(kinds.__file__)).read_text(encoding="utf-8")).body
    for node, following in pairwise(body):
        match node, following:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int(number))),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield f"| {number} | `{name}` | {_cell(text)} |\n"


def _cell(text: str) -> str:
    """A docstring as a cell: the layout in brackets as code, then what it says."""
    text = " ".join(text.split())
    depths = accumulate((sign == "[") - (sign == "]") for sign in text)
    end = next(position for position, depth in enumerate(depths, 1) if not depth)
    meaning = text[end:].lstrip(": ")
    return f"`{text[:end]}`{': ' * bool(meaning)}{meaning}".replace("|", "\\|")


def main(arguments: list[str]) -> int:
    """Write or check the page; returns the exit code."""
    made = page()
    if "--check" in arguments:
        return int(PAGE.read_text(encoding="utf-8") != made)
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
