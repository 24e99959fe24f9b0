"""The programs in `examples/`, run as their readers run them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.needs_linux, pytest.mark.timeout(60)]

EXAMPLES = Path(__file__).parents[2] / "examples"

PRINTED = {
    "anywhere": [
        r"2 hosts, 4 readers: \[\('the', 200\), .*\]",
    ],
    "accumulate": [
        r"200000 darts: pi is about 3\.1[345]",
        r"after reply 4: off by less than 0\.00\d",
    ],
    "channels": [
        r"16 reports, the last loss is 0\.25",
        r"steps done: \[4, 4, 4, 4\]",
        r"votes by rank: \{0: 'yes', 1: 'no', 2: 'yes', 3: 'no'\}",
        r"received an error: RuntimeError: the data is gone",
    ],
    "concurrent_endpoints": [
        r"readers that wait: 101",
        r"everybody read: \{'all ranks are up'\}",
        r"readers that wait: 1",
        r"the last reader got SupervisionError",
        r".*the board closes with 0 readers",
    ],
    "counters": [
        r"rank 3 at \{'rows': 1, 'columns': 1\} has 11",
        r"the top row has \[111, 111\]",
        r"the corner has 1011",
        r"somebody stands at row [01], column [01]",
        r"in the end they have \[114, 114, 14, 1014\]",
        r"their sum is 1256",
    ],
    "crawler": [
        r"200 pages were found, and 200 read",
        r"pages by crawler: \[\d+, \d+, \d+\]",
    ],
    "logging_output": [
        r"- by default: .*",
        r"\[4 procs of trainers\] \[0-3\] the data is loaded",
        r"\[.*\] \[2\] a C library writes straight to descriptor 2",
        r"- every line by itself",
        r"\[.*\] \[3\] the data is loaded",
        r"- lines of five seconds .*",
        r"\[12 similar log lines\] step <<.*>>: loss <<.*>>",
        r"- Python's logging .*",
        r"\[.*\] \[0\] \[actor=.*\] the learning rate is high",
        r"- nothing, .*",
    ],
    "own_scheduler": [
        r"6 clerks on 3 hosts",
        r"<PoolJob \{'meshes': \{'clerks': 3\}\} not running>",
    ],
    "parameter_server": [
        r"gradients pushed: 400",
        r"the loss fell from 0\.\d+ to 0\.000",
        r"largest error of a weight: 0\.00\d",
    ],
    "per_rank_environment": [
        r"rank 0: GPU 0, 1 thread, cache-of-0, no homepage",
        r"rank 3: GPU 3, 1 thread, cache-of-3, no homepage",
        r"processors of each rank: \[1, 1, 1, 1\]",
        r"decimal was preloaded: \{True\}",
    ],
    "ping_pong": [
        r"pong has the ball",
        r"ping hit 1000 times, pong 1000",
        r"\d+ microseconds a volley",
        r"nobody could answer: .*calls wait for each other.*",
    ],
    "supervision": [
        r"tasks done by rank: \[4, 4, 4\]",
        r"the foreman says workers: rank \[1\] ended by SIGKILL",
        r"tasks done by rank: \[5, 1, 5\]",
        r"the foreman says workers: rank \[2\] ended by SIGKILL",
        r"unhandled: foreman \[0\]",
        r"the foreman is gone, because of \w+ \[2\]",
    ],
}
"""For each example, lines of its output: some of them, whole lines, as patterns."""

ON_STDERR = {
    "logging_output": r"\[.*\] \[(2\] a C library|\d\] \[actor=.*\] the learning rate is high)",
}
"""Examples that show what ranks write to their standard error: what its lines look like."""


def run(program: Path, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a program in an empty directory, with an empty home."""
    home, workplace = directory / "home", directory / "empty"
    home.mkdir()
    workplace.mkdir()
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("XDG_S", "PYTEST"))
    }
    return subprocess.run(
        [sys.executable, str(program)],
        cwd=workplace,
        env={**environment, "HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )


def lines_missing(printed: str, patterns: list[str]) -> list[str]:
    """The patterns that no line matches."""
    lines = printed.splitlines()
    return [p for p in patterns if not any(re.fullmatch(p, line) for line in lines)]


def test_every_example_is_run_and_its_output_is_checked():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == PRINTED.keys()


@pytest.mark.parametrize("name", PRINTED)
def test_example_prints_what_it_shows_and_leaves_nothing(name: str, tmp_path: Path):
    done = run(EXAMPLES / f"{name}.py", tmp_path)

    assert done.returncode == 0, done.stderr
    expected = re.compile(ON_STDERR.get(name, r"(?!)"))
    assert [line for line in done.stderr.splitlines() if not expected.match(line)] == []
    assert lines_missing(done.stdout + done.stderr, PRINTED[name]) == [], done.stdout
    assert list((tmp_path / "empty").iterdir()) == []
    assert [p.name for p in (tmp_path / "home").iterdir()] in ([], [".local"])  # logs of procs


def test_crawler_crawls_a_directory_that_it_is_given(tmp_path: Path):
    site = tmp_path / "site"
    site.joinpath("news").mkdir(parents=True)
    site.joinpath("index.html").write_text('<a href="news/first.html">1</a> <a href="gone.html">')
    site.joinpath("news", "first.html").write_text('<a href="../index.html#top">back</a>')

    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "crawler.py"), str(site)],
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )

    assert done.stdout.startswith("2 pages were found, and 2 read\n"), done.stderr
