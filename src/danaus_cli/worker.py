"""``danaus worker``: the process that a scheduler starts on each host."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from danaus.actor import run_worker_loop_forever
from danaus.spmd import rank_by_launcher

if TYPE_CHECKING:
    import argparse

__all__ = ["DESCRIPTION", "EXAMPLE", "add_arguments", "run"]

DESCRIPTION = """Serve this machine as a host.

The worker runs until a client shuts it down, and starts what clients ask for. It prints one line of
JSON when it listens: the address that others reach it at, its name and its process."""

EXAMPLE = """example:
  $ danaus key job.key
  $ danaus worker --address 'tcp://*:26600' --key job.key
  {"address": "tcp://10.0.0.7:26600", "name": "node7", "pid": 4242}
and in a script, on a machine that has job.key as well:
  hosts = attach_to_workers(workers=["tcp://10.0.0.7:26600"], key="job.key")"""

_END = "-----END PRIVATE KEY-----"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--address",
        default="tcp://*:26600",
        help="tcp://HOST:PORT (* for all addresses of this machine, port 0 for any free one), or "
        "ipc://PATH (default: %(default)s)",
    )
    parser.add_argument(
        "--key",
        help="path of the job key, or - to read it from the standard input; by default what "
        "DANAUS_JOB_KEY names",
    )
    parser.add_argument(
        "--name",
        help="the host's name, for people (default: the machine's, with _RANK if mpirun, srun or "
        "torchrun has started this)",
    )
    parser.add_argument(
        "--until-eof",
        action="store_true",
        help="end, with all that runs here, when the standard input ends",
    )
    parser.add_argument(
        "--report",
        metavar="FILE",
        help="write the line of JSON to this file as well; to RANK.json in it if it ends in / or "
        "is a folder, with the rank that mpirun, srun or torchrun gives",
    )


def run(arguments: argparse.Namespace) -> int:
    """Become the host; does not return but for an error.

    Raises:
        RuntimeError: An option cannot be followed.
    """
    try:
        return _serve(arguments)
    except ValueError as error:
        raise RuntimeError(str(error)) from error


def _serve(arguments: argparse.Namespace) -> int:
    rank = rank_by_launcher()
    path = _report_path(arguments.report, rank) if arguments.report else None
    name = arguments.name
    if name is None and rank is not None and "DANAUS_PROCESS_NAME" not in os.environ:
        name = f"{socket.gethostname()}_{rank}"
    key = _read_key() if arguments.key == "-" else arguments.key

    def report(address: str, name: str) -> None:
        line = json.dumps({"address": address, "name": name, "pid": os.getpid()})
        print(line, flush=True)  # what the command is for
        if path is not None:
            _write(path, line)

    run_worker_loop_forever(
        address=arguments.address,
        key=key,
        name=name,
        on_listening=report,
        until_end_of=0 if arguments.until_eof else -1,
    )


def _report_path(given: str, rank: int | None) -> Path:
    """Where to report; the folder is there then."""
    path = Path(given)
    if not given.endswith("/") and not path.is_dir():
        return path
    if rank is None:
        raise ValueError(
            f"the report cannot go to the folder {given}: no launcher says which rank this is; "
            "name a file"
        )
    path.mkdir(parents=True, exist_ok=True)
    return path / f"{rank}.json"


def _write(path: Path, line: str) -> None:
    """Write a whole file at once: whoever looks sees all of it, or nothing."""
    made = path.with_name(f"{path.name}.{os.getpid()}")
    made.write_text(f"{line}\n", encoding="utf-8")
    made.replace(path)


def _read_key() -> str:
    """The key from the standard input, of which not a byte more is read."""
    text = ""
    while _END not in text:
        # A byte at a time: what follows is not ours.
        byte = os.read(sys.stdin.fileno(), 1)
        if not byte:
            raise ValueError("the standard input ended before a whole job key had come")
        text += byte.decode("ascii", "replace")
    return f"{text}\n"
