"""``danaus demo``: the arguments, and which parts do the work."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from danaus_cli.demo.plan import DEFAULT_STEPS, MAX_TRAINERS, Plan

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["DESCRIPTION", "EXAMPLE", "add_arguments", "run"]

DESCRIPTION = """\
Train a character-level language model, data-parallel, on a small cluster of this
machine: hosts, processes and actors as on a large one. Loaders read the sources and
documentation of Danaus; trainers compute gradients; the driver adds them up.
Afterwards it is checked that no process, socket or file of the job is left.
"""

EXAMPLE = """\
examples:
  danaus demo                    the whole run, in about 15 seconds on two cores
  danaus demo --kill-one         half way a trainer is killed, and brought back
  danaus demo --json > run.json  the run as data

keys of --json:
  plan         what was asked for: steps, trainers, loaders, seed, ...
  text         files: number of files by origin; characters
  model        parameters; digest: checksum of the weights; identical: on all trainers
  loss         held_out_before, held_out_after, curve: of the training; nats a character
  samples      before, after: what the model writes
  members      role, rank, host, pid, cpu_s of each actor and of the driver
  deaths       of --kill-one: rank, host, pid, exit, step, reason, noticed_s, recovered_s,
               new_pid, survivor
  traffic      messages, bytes, bulk_bytes that all processes of the run have sent
  speed        steps_per_s, tokens_per_s
  seconds      start, training, stop, total
  left_behind  checked; had: counts before the end; processes, sockets, files: what is
               left; waited_s
  success      whether the model learned, the trainers agree and nothing is left

exit code: 0 on success, else 1
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``danaus demo``."""
    parser.add_argument(
        "--steps", type=_between(1, 1_000_000), default=DEFAULT_STEPS, help="of the optimizer"
    )
    parser.add_argument(
        "--trainers", type=_between(1, MAX_TRAINERS), default=4, help="hosts that train"
    )
    parser.add_argument(
        "--loaders", type=_between(1, 2), default=1, help="hosts that read text: 1 or 2"
    )
    parser.add_argument(
        "--text",
        type=_folder,
        default="",
        metavar="FOLDER",
        help="learn from its .txt, .md and .py files instead",
    )
    parser.add_argument(
        "--kill-one",
        action="store_true",
        help="kill the process of a trainer half way, with SIGKILL",
    )
    parser.add_argument("--seed", type=_between(0, 2**63), default=0, help="of all randomness")
    parser.add_argument(
        "--json", action="store_true", help="print the run as data; the rest goes to stderr"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the demo and tell how it went.

    Raises:
        danaus.errors.MissingExtra: numpy is not installed.
        danaus.errors.SupervisionError: A process died that was not meant to.
    """
    _require_numpy()
    if arguments.kill_one and arguments.trainers == 1:
        print(
            "danaus demo: --kill-one needs another trainer to copy the weights from; "
            "use --trainers 2 or more",
            file=sys.stderr,
        )
        return 2
    plan = Plan(
        steps=arguments.steps,
        trainers=arguments.trainers,
        loaders=arguments.loaders,
        kill_one=arguments.kill_one,
        seed=arguments.seed,
        text=arguments.text,
    )
    # They import numpy, which --help and the check above must not.
    from danaus_cli.demo.progress import Style
    from danaus_cli.demo.report import Narrator, write_json
    from danaus_cli.demo.training import run as run_demo

    stream = sys.stderr if arguments.json else sys.stdout
    narrator = Narrator(stream, Style(stream))
    outcome = run_demo(plan, narrator)
    narrator.ended(outcome)
    if arguments.json:
        write_json(outcome, sys.stdout)
    return 0 if outcome.is_success else 1


def _require_numpy() -> None:
    from importlib.util import find_spec

    from danaus.errors import MissingExtra

    if find_spec("numpy") is None:
        raise MissingExtra("demo", "numpy")


def _folder(text: str) -> str:
    """A folder that exists, as an absolute path, for argparse."""
    if text and not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not a folder")
    return str(Path(text).resolve()) if text else ""


def _between(lowest: int, highest: int) -> Callable[[str], int]:
    """A whole number within limits, for argparse."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if not lowest <= number <= highest:
            raise argparse.ArgumentTypeError(f"{number} is not between {lowest} and {highest}")
        return number

    return parse
