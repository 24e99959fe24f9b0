"""What the demo tells: to people as it goes, to programs as one JSON document at the end."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from danaus_cli.demo.progress import ProgressBar, Style, sparkline

if TYPE_CHECKING:
    from typing import TextIO

    from danaus_cli.demo.outcome import Death, Outcome

__all__ = ["Narrator", "format_bytes", "verdict", "write_json"]

#: Columns of the words at the left of each paragraph.
MARGIN = 10
#: The loss that the bar shows is the mean of so many steps.
SMOOTHING_STEPS = 20
#: At most so many lines and columns of a sample are shown.
SAMPLE_LINES, SAMPLE_COLUMNS = 8, 84


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
        self._tell("job", f"{hosts} hosts: {plan.trainers} that train, {plan.loaders} that read")
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
            f"  {self.style.bad('killed')}  trainer {death.rank} on {death.host} (pid {death.pid}) "
            f"died of {death.exit} in step {death.step}; known after {death.noticed_s * 1000:.0f} ms"
        )
        self.bar.say(
            f"  {self.style.good('back')}    trainer {death.rank} (pid {death.new_pid}) has the "
            f"weights of trainer {death.survivor} after {death.recovered_s * 1000:.0f} ms; "
            f"step {death.step} is made again"
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
                f"{member.role} {member.rank}  on {member.host:<14} pid {member.pid:<8} "
                f"{member.cpu_s:5.1f} s of processor",
            )
        traffic = outcome.traffic
        self._tell(
            "moved",
            f"{traffic.messages:,} messages, {format_bytes(traffic.bytes)}, "
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
        self.stream.write(f"  {self.style.bold(word.ljust(MARGIN))}{text}\n")
        self.stream.flush()


def verdict(outcome: Outcome) -> str:
    """One line: is anything left of the job?"""
    inventory, remains = outcome.inventory, outcome.remains
    if inventory is None or remains is None or not inventory.processes:
        return "unknown: this system has no /proc to look it up"
    if not remains:
        return (
            f"nothing: its {len(inventory.processes)} processes, {len(inventory.sockets)} sockets "
            f"and {len(inventory.files)} files and folders are gone (looked up in /proc)"
        )
    left = [
        f"{len(items)} {kind}: {', '.join(items[:3])}{' …' if len(items) > 3 else ''}"  # noqa: PLR2004
        for kind, items in (
            ("processes", remains.processes),
            ("sockets", remains.sockets),
            ("files", remains.files),
        )
        if items
    ]
    return f"after {remains.waited_s:.0f} s there are still " + "; ".join(left)


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
