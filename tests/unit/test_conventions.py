"""The house rules that no linter knows, checked on every file of the project.

Each test lists all offenders, as path and line, so that one run shows what to do.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pickle
import re
import types
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import danaus
from danaus.testing import Leaks

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"

LONGEST_MODULE = 500
"""Lines of a module. A longer one says why, in a line of its docstring that starts `Length:`."""

PROSE = ("*.md", "*.toml", "Makefile", ".ci/*", "docs/**/*.md")

UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX)\b")

# Where somebody's checkout or registry happens to be means nothing to the next reader.
WORKPLACE = re.compile(
    r"(?<![\w.])/(?:home/(?!user\b)\w+|Users/\w+|root|work|workspace)/"
    r"|--(?:extra-)?index-url|--find-links"
    r"|\b[\w-]+\.(?:internal|corp|lan)\b"
    r"|co-authored-by|generated (?:by|with) [A-Z]",
)


def sources() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py") if path.name != "__main__.py")


def python_files() -> list[Path]:
    folders = ("src", "tests", "benchmarks", "examples", "tools")
    found = [path for folder in folders for path in ROOT.joinpath(folder).rglob("*.py")]
    return sorted(path for path in found if ".peers" not in path.parts)


def text_files() -> list[Path]:
    prose = [path for pattern in PROSE for path in ROOT.glob(pattern) if path.is_file()]
    return sorted({*python_files(), *prose} - {Path(__file__)})  # it holds what it looks for


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def place(path: Path, line: int = 1) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def exports(path: Path) -> list[str] | None:
    """The literal ``__all__`` of a file, None if it has none."""
    for node in tree(path).body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if [ast.unparse(target) for target in targets] == ["__all__"] and node.value:
                return ast.literal_eval(node.value)
    return None


def public_definitions(
    path: Path,
) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in tree(path).body:
        definition = isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if definition and not node.name.startswith("_"):
            yield node


def is_overload(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(ast.unparse(mark).endswith("overload") for mark in node.decorator_list)


@cache
def imported(path: Path) -> types.ModuleType | None:
    """The module of a source file; None if it cannot be imported, which has a test of its own."""
    try:
        return importlib.import_module(module_name(path))
    except ImportError:
        return None


def test_every_source_file_has_a_docstring():
    files = [path for path in python_files() if "tests" not in path.relative_to(ROOT).parts]

    assert [place(path) for path in files if not ast.get_docstring(tree(path))] == []


def test_every_module_can_be_imported():
    assert [place(path) for path in sources() if imported(path) is None] == []


def test_every_module_names_its_exports():
    files = [path for path in sources() if len(tree(path).body) > 1]  # more than a docstring

    assert [place(path) for path in files if exports(path) is None] == []


def test_every_exported_name_exists():
    unknown = [
        f"{place(path)} {name}"
        for path in sources()
        if (module := imported(path))
        for name in exports(path) or ()
        if not hasattr(module, name)
    ]

    assert unknown == []


def test_every_public_class_and_function_is_exported():
    hidden = [
        f"{place(path, node.lineno)} {node.name}"
        for path in sources()
        for node in public_definitions(path)
        if node.name not in (exports(path) or ())
    ]

    assert hidden == []


def test_every_public_class_and_function_is_documented():
    bare = [
        f"{place(path, node.lineno)} {node.name}"
        for path in sources()
        for node in public_definitions(path)
        if not ast.get_docstring(node) and not is_overload(node)
    ]

    assert bare == []


def test_no_module_is_longer_than_its_reader_can_hold():
    long = [
        place(path, lines)
        for path in python_files()
        if (lines := path.read_text(encoding="utf-8").count("\n")) > LONGEST_MODULE
        and not re.search(r"^Length: \w", ast.get_docstring(tree(path)) or "", re.MULTILINE)
    ]

    assert long == []


def test_nothing_suppresses_every_exception():
    suppressions = [
        place(path, node.lineno)
        for path in python_files()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call)
        and re.search(r"(?:^|\.)suppress$", ast.unparse(node.func))
        and {"Exception", "BaseException"} & {ast.unparse(argument) for argument in node.args}
    ]

    assert suppressions == []


def test_nothing_is_left_unfinished_in_the_text():
    assert list(lines_that_match(UNFINISHED)) == []


def test_nothing_names_the_place_where_it_was_written():
    assert list(lines_that_match(WORKPLACE)) == []


def lines_that_match(pattern: re.Pattern[str]) -> Iterator[str]:
    for path in text_files():
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if found := pattern.search(line):
                yield f"{place(path, number)} {found[0]}"


# Exceptions cross process borders, so each must come back from its pickle as it was.


SAMPLES: dict[str, Any] = {
    "Any": "anything",
    "BaseException": ValueError("cause"),
    "Exception": ValueError("cause"),
    "Iterable": ("a", "b"),
    "Leaks": Leaks(threads=("io",)),
    "Mapping": {"gpus": 8},
    "Path": Path("file"),
    "Sequence": ("a", "b"),
    "bool": True,
    "bytes": b"bytes",
    "dict": {"gpus": 8},
    "float": 1.5,
    "int": 7,
    "list": ["a", "b"],
    "object": "anything",
    "str": "text",
    "tuple": (1, 2),
}
"""A value for each type that an exception's constructor is annotated with; first of a union."""


def sample(kind: type[BaseException], *, optional: bool) -> BaseException:
    """Make an exception with plausible arguments: the required ones, or all."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    try:
        parameters = inspect.signature(kind).parameters.values()
    except ValueError:  # the constructor is a built-in exception's
        return kind("text")
    for parameter in parameters:
        wanted = optional or parameter.default is parameter.empty
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional += ["text"] * optional
        elif wanted and parameter.kind is parameter.KEYWORD_ONLY:
            named[parameter.name] = sample_value(kind, parameter)
        elif wanted and parameter.kind is not parameter.VAR_KEYWORD:
            positional.append(sample_value(kind, parameter))
    return kind(*positional, **named)


def sample_value(kind: type[BaseException], parameter: inspect.Parameter) -> Any:
    annotation = parameter.annotation
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    head = re.split(r"[\[| ]", text)[0].rpartition(".")[2]
    if head in SAMPLES:
        return SAMPLES[head]
    for other in exported_exceptions():
        if other.__name__ == head:
            return sample(other, optional=False)
    pytest.fail(f"{kind.__qualname__}({parameter}): add a value for {head!r} to SAMPLES here.")


def exported_exceptions() -> list[type[BaseException]]:
    found = {
        thing
        for path in sources()
        if (module := imported(path))
        for name in exports(path) or ()
        if isinstance(thing := getattr(module, name, None), type)
        and issubclass(thing, BaseException)
        and thing.__module__.partition(".")[0] == danaus.__name__
    }
    return sorted(found, key=lambda kind: (kind.__module__, kind.__qualname__))


@pytest.mark.parametrize("filled", ["required arguments", "all arguments"])
def test_every_exported_exception_survives_pickling(filled: str):
    broken: list[str] = []
    for kind in exported_exceptions():
        error = sample(kind, optional=filled == "all arguments")
        try:
            copy = pickle.loads(pickle.dumps(error))
        except Exception as failure:  # noqa: BLE001  # listed with the other offenders
            broken.append(f"{kind.__qualname__}: {failure!r}")
            continue
        same = isinstance(copy, kind) and str(copy) == str(error)
        if not same or repr(vars(copy)) != repr(vars(error)):
            broken.append(f"{kind.__qualname__}: {error!r} {vars(error)} came back as {copy!r}")

    assert broken == []
