"""What the demo tells: to people as it goes, to programs as one JSON document at the end."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from danaus_cli.demo.progress import ProgressBar, Style, sparkline

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    from danaus_cli.demo.outcome import Death, Outcome

__all__ = ["Narrator", "format_bytes", "verdict", "write_json"]

#: Columns of the words at the left of each paragraph.
MARGIN = 10
#: The loss that the bar shows is the mean of so many steps.
SMOOTHING_STEPS = 20
#: At most so many lines and columns of a sample are shown.
SAMPLE_LINES, SAMPLE_COLUMNS = 8, 84
#: At most so many things that are left behind are named.
NAMED = 3


class Narrator:
    """Writes down how a run goes, as it goes.

    Args:
        stream: Where to.
        style: What the stream can show.
    """

    def __init__(self, stream: TextIO, style: Style) -> None:
        self.stream = stream
        self.style = style
        self.bar: ProgressBar | None = None

    def opened(self, outcome: Outcome) -> None:
        """All actors are there; the model knows nothing yet."""
        plan = outcome.plan
        hosts = plan.trainers + plan.loaders
        files = " and ".join(f"{count} of {origin}" for origin, count in outcome.files.items())
        self._tell(
            "job",
            f"{hosts} hosts: {_counted(plan.trainers, 'trains', 'train')}, {_counted(plan.loaders, 'reads', 'read')}",
        )
        self._tell("text", f"{outcome.characters:,} characters from files: {files}")
        self._tell("model", f"{outcome.parameters:,} weights, the same on every trainer")
        self._tell_loss("before", outcome.held_out_before, outcome.sample_before)

    def training_began(self, outcome: Outcome) -> None:
        """The first step is about to be made."""
        self.bar = ProgressBar(self.stream, self.style, outcome.plan.steps, now=time.monotonic())

    def stepped(self, outcome: Outcome) -> None:
        """A step was made."""
        assert self.bar is not None
        last = outcome.losses[-SMOOTHING_STEPS:]
        self.bar.show(
            len(outcome.losses),
            loss=sum(last) / len(last),
            tokens=outcome.tokens,
            now=time.monotonic(),
        )

    def came_back(self, death: Death) -> None:
        """A trainer was killed and is back."""
        assert self.bar is not None
        self.bar.say(
            self._line(
                "killed",
                f"trainer {death.rank} on {death.host} (pid {death.pid}) died of {death.exit} "
                f"in step {death.step}; known after {death.noticed_s * 1000:.0f} ms",
                paint=self.style.bad,
            )
        )
        self.bar.say(
            self._line(
                "back",
                f"trainer {death.rank} (pid {death.new_pid}) has the weights of trainer "
                f"{death.survivor} after {death.recovered_s * 1000:.0f} ms; "
                f"step {death.step} is made again",
                paint=self.style.good,
            )
        )

    def training_ended(self) -> None:
        """The last step was made."""
        if self.bar is not None:
            self.bar.finish()

    def closed(self, outcome: Outcome) -> None:
        """The model has learned; all figures but those of the end are known."""
        self._tell_loss("after", outcome.held_out_after, outcome.sample_after)
        curve = sparkline(outcome.losses, 40, blocks=self.style.blocks)
        speed = outcome.tokens / outcome.training_s if outcome.training_s else 0.0
        self._tell(
            "learned",
            f"{outcome.losses[0]:.2f} {curve} {outcome.losses[-1]:.2f}  "
            f"{outcome.tokens:,} tokens, {speed:,.0f} a second",
        )
        same = f"all {len(outcome.digests)} trainers ended with the same (checksum "
        differ = "trainers differ (checksums "
        self._tell(
            "weights",
            (same if outcome.is_consistent else self.style.bad(differ))
            + ", ".join(sorted(set(outcome.digests)))
            + ")",
        )
        for number, member in enumerate(outcome.members):
            self._tell(
                "" if number else "where",
                f"{f'{member.role} {member.rank}':<11} on {member.host:<14} pid {member.pid:<8} "
                f"{member.cpu_s:5.1f} s of processor",
            )
        traffic = outcome.traffic
        self._tell(
            "moved",
            f"{traffic.messages:,} messages, {format_bytes(traffic.bytes)}; "
            f"{format_bytes(traffic.bulk_bytes)} of bulk data by shared memory",
        )

    def ended(self, outcome: Outcome) -> None:
        """The job is over and what is left of it has been looked for."""
        seconds = (
            f"{outcome.total_s:.1f} s: start {outcome.start_s:.1f}, "
            f"training {outcome.training_s:.1f}, stop {outcome.stop_s:.1f}"
        )
        self._tell("time", seconds)
        text = verdict(outcome)
        self._tell("left", self.style.bad(text) if outcome.remains else self.style.good(text))

    def _tell_loss(self, word: str, loss: float, sample: str) -> None:
        self._tell(word, f"loss {loss:.3f} nats a character on text held out; it writes:")
        rule = "│" if self.style.blocks else "|"
        for line in sample.splitlines()[:SAMPLE_LINES]:
            self._tell("", self.style.dim(f"{rule} {line[:SAMPLE_COLUMNS]}"))

    def _tell(self, word: str, text: str) -> None:
        self.stream.write(self._line(word, text) + "\n")
        self.stream.flush()

    def _line(self, word: str, text: str, *, paint: Callable[[str], str] | None = None) -> str:
        return f"  {(paint or self.style.bold)(word.ljust(MARGIN))}{text}"


def verdict(outcome: Outcome) -> str:
    """One line: is anything left of the job?"""
    inventory, remains = outcome.inventory, outcome.remains
    if inventory is None or remains is None or not inventory.processes:
        return "unknown: none of its processes could be seen in /proc"
    if not remains:
        had = (
            _counted(len(inventory.processes), "process", "processes"),
            _counted(len(inventory.sockets), "socket", "sockets"),
            _counted(len(inventory.files), "file or folder", "files and folders"),
        )
        return f"nothing: its {had[0]}, {had[1]} and {had[2]} are gone (looked up in /proc)"
    left = (
        _listed(remains.processes, "process", "processes"),
        _listed(remains.sockets, "socket", "sockets"),
        _listed(remains.files, "file or folder", "files and folders"),
    )
    return f"after {remains.waited_s:.0f} s there are still " + "; ".join(filter(None, left))


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _listed(items: list[str], one: str, many: str) -> str:
    """How many there are, and the first of them; nothing if there are none."""
    if not items:
        return ""
    more = [f"{len(items) - NAMED} more"] if len(items) > NAMED else []
    return f"{_counted(len(items), one, many)}: {', '.join(items[:NAMED] + more)}"


def format_bytes(count: int) -> str:
    """A number of bytes for people, in powers of 1024."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:  # noqa: PLR2004
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def write_json(outcome: Outcome, stream: TextIO) -> None:
    """Write the whole run as one JSON document."""
    json.dump(outcome.to_dict(), stream, indent=2)
    stream.write("\n")
