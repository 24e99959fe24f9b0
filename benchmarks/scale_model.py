"""What a cast over so many hosts costs: messages, bytes and seconds, at the root and per level.

A model of few terms: what a frame costs who sends or receives it, what a byte costs, what a
receiver's reply costs the caller, and how long a frame is on its way.
`benchmarks.many_hosts` measures real agents; with its figures (``--figures FILE``) the first three
of `Costs` and the bytes of a cast are fitted to the trees of the smaller meshes, and everything is
compared with all that was measured. The other terms are assumed: the field says so.

    python -m benchmarks.scale_model --hosts 256 1000 10000 100000 --levels
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Costs", "Level", "Prediction", "fit", "levels", "main", "predict", "ratios"]


@dataclass(frozen=True, slots=True)
class Costs:
    """What things cost.

    The defaults are of the order of what was measured on a server with two cores, in 2026, except
    where it says that they are assumed. `fit` finds 0 for ``call_s`` there: the price of a frame,
    taken from broadcasts, has swallowed it.
    """

    frame_s: float = 60e-6
    """Processor time of a frame, sent or received, with TLS."""
    call_s: float = 1e-3
    """Processor time of the caller for a call of nobody: to wait, and to wake up."""
    reply_s: float = 6e-6
    """Processor time of the caller for each reply of a call."""
    byte_s: float = 1.2e-9
    """Processor time of a byte, sent or received, with TLS. Assumed, not measured."""
    hop_s: float = 100e-6
    """From a frame's last byte written to its handling at the next host. Assumed, not measured."""
    head_bytes: int = 150
    """Of a cast without its argument."""
    batch_bytes: int = 90
    """Of a frame of equal replies, however many. Assumed; 60 to 80 were measured."""


@dataclass(frozen=True, slots=True)
class Level:
    """Hosts at one distance from the root."""

    depth: int
    hosts: int
    """Count of hosts there."""
    children: int
    """Most hosts below one of them."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Of one call of all ranks, whose argument and replies have the bytes given."""

    hosts: int
    fanout: int
    depth: int
    root_frames: int
    """Sent and received by the caller."""
    root_bytes: float
    root_broadcast_s: float
    """Processor time of the caller for a broadcast."""
    root_call_s: float
    """Processor time of the caller for a call."""
    down_s: float
    """Until the last host has the cast."""
    call_s: float
    """Until the caller has all replies, if the ranks answer at once."""


def levels(hosts: int, fanout: int) -> list[Level]:
    """The shape of the tree over so many hosts, the root first.

    Example:
        >>> [(level.hosts, level.children) for level in levels(7, 2)]
        [(1, 2), (2, 2), (4, 1), (1, 0)]
    """
    found: list[Level] = []
    sizes = {hosts: 1}  # of the parts of the mesh below the hosts of a level: how many there are
    while sizes:
        below: dict[int, int] = {}
        for size, count in sizes.items():
            children = min(fanout, size)
            for part in range(children):
                rest = size * (part + 1) // children - size * part // children - 1
                below[rest] = below.get(rest, 0) + count
        most = max(min(fanout, size) for size in sizes)
        found.append(Level(len(found), sum(sizes.values()), most))
        sizes = below
    return found


def predict(  # of a call
    hosts: int,
    fanout: int,
    *,
    ranks_per_host: int = 1,
    argument_bytes: int = 0,
    reply_bytes: int = 0,
    costs: Costs = Costs(),  # frozen
) -> Prediction:
    """What a call on all ranks of so many hosts costs.

    Args:
        hosts: Count of hosts.
        fanout: Most hosts that a host passes a cast on to; ``hosts`` for no tree.
        ranks_per_host: Count of ranks of each host.
        argument_bytes: Of the pickled arguments.
        reply_bytes: Of a reply, if they all differ; 0 for equal ones, which travel once.
        costs: What things cost.
    """
    shape = levels(hosts, fanout)
    ranks = hosts * ranks_per_host
    children = shape[0].children
    down_bytes = children * (costs.head_bytes + argument_bytes)
    up_bytes = children * costs.batch_bytes + ranks * reply_bytes
    frame_down = costs.frame_s + (costs.head_bytes + argument_bytes) * costs.byte_s
    broadcast = children * frame_down
    # A cast and its replies; where there are relays, an acknowledgement of these.
    frames = (2 if fanout >= hosts else 3) * children
    call = costs.call_s + frames * costs.frame_s + ranks * costs.reply_s
    call += (down_bytes + up_bytes) * costs.byte_s
    down = 0.0
    up = 0.0
    below = float(ranks)
    for level in shape[:-1]:
        # The last child gets it after its siblings; each then takes it in and begins.
        down += level.children * frame_down + costs.hop_s + costs.frame_s
        up += level.children * costs.frame_s + costs.hop_s + below * reply_bytes * costs.byte_s
        below /= max(1, level.children)
    return Prediction(
        hosts=hosts,
        fanout=fanout,
        depth=len(shape) - 1,
        root_frames=frames,
        root_bytes=float(down_bytes + up_bytes),
        root_broadcast_s=broadcast,
        root_call_s=call,
        down_s=down,
        call_s=costs.call_s + down + up + ranks * costs.reply_s,
    )


def fit(figures: Sequence[Mapping[str, Any]]) -> Costs:
    """Costs from what `benchmarks.many_hosts` has measured of trees, the largest mesh left out.

    A frame costs what one of a broadcast does. What a call costs beside its frames is a part that
    is always the same, and a part for each reply (by least squares).
    """
    trees = [one for one in figures if one["fanout"] < one["hosts"]]
    largest = max(one["hosts"] for one in trees)
    base = [one for one in trees if one["hosts"] < largest] or trees
    frames = sum(one["broadcast"]["frames_sent"] for one in base)
    head = sum(one["broadcast"]["bytes_sent"] for one in base) / frames
    frame_s = sum(one["broadcast"]["processor_s"] for one in base) / frames
    beside = [
        one["call"]["processor_s"]
        - frame_s * (one["call"]["frames_sent"] + one["call"]["frames_received"])
        for one in base
    ]
    hosts = [one["hosts"] for one in base]
    slope, always = 0.0, sum(beside) / len(beside)
    if len(set(hosts)) > 1:
        slope, always = statistics.linear_regression(hosts, beside)
    return Costs(
        frame_s=frame_s,
        call_s=max(always, 0.0),
        reply_s=max(slope, 1e-6),
        head_bytes=round(head),
    )


def ratios(figure: Mapping[str, Any], costs: Costs) -> dict[str, float]:
    """How many times the measured value the model predicts, for a mesh of `benchmarks.many_hosts`.

    ``frames`` and ``bytes`` are the caller's for a call, sent and received; ``broadcast`` and
    ``call`` its processor time; ``all`` the time until all have answered. The last is no test of
    the model where the hosts share processors, which it takes to be their own.
    """
    p = predict(figure["hosts"], min(figure["fanout"], figure["hosts"]), costs=costs)
    call = figure["call"]
    return {
        "frames": p.root_frames / (call["frames_sent"] + call["frames_received"]),
        "bytes": p.root_bytes / (call["bytes_sent"] + call["bytes_received"]),
        "broadcast": p.root_broadcast_s / figure["broadcast"]["processor_s"],
        "call": p.root_call_s / call["processor_s"],
        "all": p.call_s / call["wall_s"],
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; with measured figures, also how far the model is from them."""
    parser = argparse.ArgumentParser(description="What a cast over many hosts costs.")
    parser.add_argument("--hosts", type=int, nargs="+", default=[256, 1000, 10_000, 100_000])
    parser.add_argument("--fanouts", type=int, nargs="+", default=[16])
    parser.add_argument("--per-host", type=int, default=1, help="ranks of each host")
    parser.add_argument("--figures", type=Path, help="what many_hosts has written with --json")
    parser.add_argument("--levels", action="store_true", help="print each level, too")
    arguments = parser.parse_args(argv)
    costs = Costs()
    if arguments.figures:
        figures = json.loads(arguments.figures.read_text())
        costs = fit(figures)
        print(f"fitted: {costs}\n")
        _compare(figures, costs)
    print(
        "| hosts | fan-out | depth | frames at the root | bytes | broadcast, root | call, root "
        "| down | call |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for hosts in arguments.hosts:
        for fanout in (*arguments.fanouts, hosts):
            p = predict(hosts, fanout, ranks_per_host=arguments.per_host, costs=costs)
            print(
                f"| {hosts} | {'flat' if fanout == hosts else fanout} | {p.depth} | {p.root_frames} "
                f"| {p.root_bytes:,.0f} | {_ms(p.root_broadcast_s)} | {_ms(p.root_call_s)} | {_ms(p.down_s)} "
                f"| {_ms(p.call_s)} |"
            )
    if arguments.levels:
        _print_levels(arguments.hosts, arguments.fanouts, costs)
    return 0


def _print_levels(hosts: Sequence[int], fanouts: Sequence[int], costs: Costs) -> None:
    """What one host of each level writes to those below it for a cast without an argument."""
    print("\n| hosts | fan-out | level | hosts there | each passes on | bytes | has it after |")
    print("|---|---|---|---|---|---|---|")
    for count in hosts:
        for fanout in fanouts:
            after = 0.0
            frame = costs.frame_s + costs.head_bytes * costs.byte_s
            for level in levels(count, fanout):
                print(
                    f"| {count} | {fanout} | {level.depth} | {level.hosts} | {level.children} "
                    f"| {level.children * costs.head_bytes:,} | {_ms(after)} |"
                )
                after += level.children * frame + costs.hop_s + costs.frame_s


def _compare(figures: Sequence[Mapping[str, Any]], costs: Costs) -> None:
    """Print how many times the measured value the model predicts, for each mesh and overall."""
    names = ("frames", "bytes", "broadcast", "call", "all")
    print("model / measured:\n")
    print("| hosts | fan-out | frames | bytes | broadcast, root | call, root | call |")
    print("|---|---|---|---|---|---|---|")
    found: dict[bool, list[dict[str, float]]] = {True: [], False: []}
    for one in figures:
        flat = one["fanout"] >= one["hosts"]
        row = ratios(one, costs)
        found[flat].append(row)
        cells = " | ".join(f"{row[name]:.2f}" for name in names)
        print(f"| {one['hosts']} | {'flat' if flat else one['fanout']} | {cells} |")
    for flat, rows in found.items():
        if rows:
            spans = ((min(r[n] for r in rows), max(r[n] for r in rows)) for n in names)
            cells = " | ".join(f"{low:.2f}-{high:.2f}" for low, high in spans)
            print(f"| all | {'flat' if flat else 'trees'} | {cells} |")
    print()


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.2f} ms"


if __name__ == "__main__":
    sys.exit(main())
