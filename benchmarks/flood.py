"""What a flood of bad connections costs those who hold the key.

Calls go from this process to an actor on a host at a TCP address, while another process opens bad
connections to the same port as fast as it can: silence, garbage, a preface with a wrong code, the
beginning of a TLS handshake, a preface that never ends. As a comparison, the same flood against a
plain server that closes whatever connects: that is what the flooding process itself costs here.

    python -m benchmarks.flood --seconds 5
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Sequence
from pathlib import Path

from benchmarks.many_hosts import Rank, agents
from danaus.actor import attach_to_workers, shutdown_context
from danaus.job import JobKey

__all__ = ["BAD", "flood", "flooding", "main"]

BAD: tuple[bytes, ...] = (
    b"",
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"DAN1" + struct.pack("<I", 200) + bytes(200),
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    b"DAN1" + struct.pack("<I", 4000),
    bytes(range(256)) * 16,
)
"""What strangers say first."""

OPEN = 400
"""Connections that a flood keeps open."""


def flood(host: str, port: int) -> None:
    """Open bad connections until this process is ended; print how many, and what came back."""
    kept: list[socket.socket] = []
    count = answered = 0
    began = time.monotonic()
    try:
        while os.getppid() != 1:
            try:
                sock = socket.create_connection((host, port), timeout=5)
                sock.settimeout(0.0)
                sock.send(BAD[count % len(BAD)])
            except OSError:
                continue
            count += 1
            kept.append(sock)
            if len(kept) > OPEN:
                old = kept.pop(0)
                with contextlib.suppress(OSError):
                    answered += len(old.recv(4096))
                old.close()
    except KeyboardInterrupt:
        print(count, time.monotonic() - began, answered, flush=True)


@contextlib.contextmanager
def flooding(host: str, port: int) -> Generator[list[float]]:
    """A flood in a process of its own; at the end its count, seconds, and bytes that came back."""
    command = [sys.executable, "-m", "benchmarks.flood", "--at", f"{host}:{port}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parent.parent)
    found: list[float] = []
    try:
        yield found
    finally:
        process.send_signal(2)
        out, _ = process.communicate(timeout=20)
        found.extend(float(word) for word in out.split())


def close_all() -> None:
    """A server that closes whatever connects, until its standard input ends; print its port."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    print(listener.getsockname()[1], flush=True)

    def serve() -> None:
        while True:
            sock, _ = listener.accept()
            sock.close()

    threading.Thread(target=serve, daemon=True).start()
    sys.stdin.read()


@contextlib.contextmanager
def _closing() -> Generator[int]:
    """Port of such a server, in a process of its own: in this one it would slow the calls down."""
    command = [sys.executable, "-m", "benchmarks.flood", "--close-all"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, stdin=pipe, stdout=pipe, cwd=Path(__file__).parent.parent, text=True
    )
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.communicate(timeout=20)


def _measure(ranks: Rank, seconds: float) -> tuple[float, float]:
    """Median seconds of a call, and calls a second when they are pipelined."""
    walls: list[float] = []
    until = time.perf_counter() + seconds / 2
    while (began := time.perf_counter()) < until:
        ranks.nothing.call_one().get(60)
        walls.append(time.perf_counter() - began)
    began = time.perf_counter()
    count = 0
    while time.perf_counter() < began + seconds / 2:
        for future in [ranks.nothing.call_one() for _ in range(200)]:
            future.get(60)
        count += 200
    return statistics.median(walls), count / (time.perf_counter() - began)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What a flood of bad connections costs.")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--at", help="flood HOST:PORT until interrupted (used by the benchmark)")
    parser.add_argument("--close-all", action="store_true", help="serve (used by the benchmark)")
    arguments = parser.parse_args(argv)
    if arguments.close_all:
        close_all()
        return 0
    if arguments.at:
        host, port = arguments.at.rsplit(":", 1)
        flood(host, int(port))
        return 0
    with (
        tempfile.TemporaryDirectory() as folder,
        agents(1, Path(folder)) as addresses,
        _closing() as closer,
    ):
        key = JobKey.load(Path(folder, "job.key"))
        ranks = attach_to_workers(workers=addresses, key=key).spawn_procs().spawn("ranks", Rank)
        ranks.nothing.call().get(60)
        port = int(addresses[0].rsplit(":", 1)[1])
        print("| flood | bad connections | bytes that came back | call_one | pipelined |")
        print("|---|---|---|---|---|")
        _measure(ranks, 1.0)
        for name, at in (("none", 0), ("of a plain server", closer), ("of the agent", port)):
            with contextlib.ExitStack() as stack:
                found = stack.enter_context(flooding("127.0.0.1", at)) if at else [0.0, 1.0, 0.0]
                if at:
                    time.sleep(1.0)
                wall, rate = _measure(ranks, arguments.seconds)
            print(
                f"| {name} | {found[0] / found[1]:,.0f}/s | {found[2]:.0f} | {wall * 1e6:.0f} us "
                f"| {rate:,.0f}/s |",
                flush=True,
            )
        shutdown_context().get(60)
    return 0


if __name__ == "__main__":
    sys.exit(main())
