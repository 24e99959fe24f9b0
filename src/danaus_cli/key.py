"""``danaus key``: make the key of a job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from danaus.job import JobKey

if TYPE_CHECKING:
    import argparse

__all__ = ["DESCRIPTION", "EXAMPLE", "add_arguments", "run"]

DESCRIPTION = """Make the key of a job and write it to a file that only you can read.

Whoever has the file can use the job's hosts; nobody else can. Give it to every worker and client."""

EXAMPLE = """example:
  $ danaus key job.key
  job.key: the key of a new job (fingerprint 1f0c6a2b)"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", help="where to write it; an existing file is not replaced")


def run(arguments: argparse.Namespace) -> int:
    """Make and write it."""
    if Path(arguments.file).exists():
        raise FileExistsError(f"{arguments.file} exists; remove it first, or name another file")
    key = JobKey.make()
    key.save(arguments.file)
    print(f"{arguments.file}: the key of a new job (fingerprint {key.fingerprint})")
    return 0
