"""The documents: their programs run, their links lead somewhere, their tables are current.

The `python` fences of a page, one after the other, are one program; a page with tests in it is run
by pytest. An `output` fence holds lines that the program prints, in order; `...` in it stands for
anything.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import danaus.errors

pytestmark = [pytest.mark.needs_linux, pytest.mark.timeout(60)]

ROOT = Path(__file__).parents[2]

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)")


def pages() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *ROOT.joinpath("docs").rglob("*.md")])


def fences(page: Path, language: str) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return [body for kind, body in FENCE.findall(text) if kind == language]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


PROGRAMS = [page for page in pages() if fences(page, "python")]


def run(program: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a page's program in an empty directory, with an empty home."""
    home, workplace = directory / "home", directory / "empty"
    home.mkdir()
    workplace.mkdir()
    file = directory / "test_page.py"
    file.write_text(program, encoding="utf-8")
    tests = "\ndef test_" in program or "\nasync def test_" in program
    words = (
        ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "-c", os.devnull]
        if tests
        else []
    )
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("XDG_S", "PYTEST"))
    }
    return subprocess.run(
        [sys.executable, *words, str(file)],
        cwd=workplace,
        env={**environment, "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )


def missing_lines(printed: str, expected: list[str]) -> list[str]:
    """The expected lines from the first one on that does not come in its turn."""
    lines = iter(printed.splitlines())
    for number, wanted in enumerate(expected):
        pattern = ".*".join(map(re.escape, wanted.split("...")))
        if not any(re.fullmatch(pattern, line.rstrip()) for line in lines):
            return expected[number:]
    return []


@pytest.mark.parametrize("page", PROGRAMS, ids=name_of)
def test_program_of_a_page_runs_and_prints_what_the_page_says(page: Path, tmp_path: Path):
    done = run("\n".join(fences(page, "python")), tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    expected = [line for body in fences(page, "output") for line in body.splitlines()]
    assert missing_lines(done.stdout, expected) == [], done.stdout
    assert list((tmp_path / "empty").iterdir()) == []


def test_every_link_leads_to_a_file():
    assert list(dead_links()) == []


def dead_links() -> Iterator[str]:
    for page in pages():
        for target in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
            if "://" not in target and not (page.parent / target).exists():
                yield f"{name_of(page)}: {target}"


def test_every_page_can_be_reached_from_the_readme():
    reached, open_pages = set[Path](), [ROOT / "README.md"]
    while open_pages:
        page = open_pages.pop().resolve()
        if page.suffix == ".md" and page.is_file() and page not in reached:
            reached.add(page)
            links = LINK.findall(page.read_text(encoding="utf-8"))
            open_pages += [page.parent / link for link in links if "://" not in link]

    assert [name_of(page) for page in pages() if page not in reached] == []


@pytest.mark.parametrize(("page", "limit"), [("README.md", 150), ("ARCHITECTURE.md", 300)])
def test_page_is_short_enough_to_be_read(page: str, limit: int):
    assert len(ROOT.joinpath(page).read_text(encoding="utf-8").splitlines()) <= limit


@pytest.mark.parametrize("tool", ["make_config_reference", "make_wire_reference"])
def test_generated_page_is_current(tool: str):
    script = ROOT / "tools" / f"{tool}.py"

    done = subprocess.run([sys.executable, str(script), "--check"], check=False, timeout=40)

    assert done.returncode == 0, f"run: python {script.relative_to(ROOT)}"


def test_every_exception_has_its_place_in_the_reference():
    page = ROOT.joinpath("docs/reference/errors.md").read_text(encoding="utf-8")
    kinds = [
        name
        for name in danaus.errors.__all__
        if isinstance(kind := getattr(danaus.errors, name), type) and issubclass(kind, Exception)
    ]

    assert [name for name in kinds if f"## {name}\n" not in page] == []
