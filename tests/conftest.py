"""The test harness: nothing left behind, nothing skipped in CI, no order to rely on.

The run has an environment of its own (run-time directory, temporary files), and each test is
checked for processes, descriptors, threads and files that it leaves. CONTRIBUTING.md explains the
markers.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator
from importlib.util import find_spec
from pathlib import Path

import pytest

from danaus.testing import VirtualClock
from danaus.testing.leaks import GRACE, KINDS, Snapshot, find_leaks, mark_offspring, snapshot

IN_CI = os.environ.get("DANAUS_CI") == "1"

RUNTIME_FOLDERS = ("integration", "fault", "contract", "examples", "kubernetes")
"""Folders of tests/ whose tests may start the client's runtime; it is stopped after each test."""

TIMEOUTS = {"unit": 10, "slow": 240}
"""Seconds for a test of this folder or marker; the others have the limit in pyproject.toml."""

_START = pytest.StashKey[Snapshot]()
_SCRATCH = pytest.StashKey[Path]()
_SEED = pytest.StashKey[int]()
_FAILED = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("danaus")
    group.addoption("--order-seed", type=int, help="repeat the order of tests that this seed gave")
    group.addoption("--sim-seed", type=int, help="run the simulations with this seed only")
    group.addoption("--leak-grace", type=float, default=GRACE, help="seconds that leaks may last")


def pytest_configure(config: pytest.Config) -> None:
    seed = config.getoption("--order-seed")
    config.stash[_SEED] = random.randrange(10**6) if seed is None else seed
    # Short, because a Unix socket's path has at most 108 bytes; private, so that two runs on one
    # machine do not take each other's files for leaks.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    scratch = config.stash[_SCRATCH] = Path(tempfile.mkdtemp(prefix="dt-"))
    folders = {"XDG_RUNTIME_DIR": "run", "TMPDIR": "tmp", "XDG_STATE_HOME": "state"}
    for variable, name in folders.items():
        scratch.joinpath(name).mkdir(mode=0o700)
        os.environ[variable] = str(scratch / name)
    tempfile.tempdir = None  # it was computed from the variable as it was
    mark_offspring()
    config.stash[_START] = snapshot()


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.stash[_SCRATCH], ignore_errors=True)


def pytest_report_header(config: pytest.Config) -> str:
    return f"danaus: --order-seed={config.stash[_SEED]}{', nothing may be skipped' * IN_CI}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _shuffle(items, random.Random(config.stash[_SEED]))
    for item in items:
        folders = _folders(item)
        if "fault" in folders:
            item.add_marker("fault")
        if item.get_closest_marker("timeout") is None:
            kinds = {*folders, *(marker.name for marker in item.iter_markers())}
            limits = [seconds for kind, seconds in TIMEOUTS.items() if kind in kinds]
            if limits:
                item.add_marker(pytest.mark.timeout(max(limits)))


def _shuffle(items: list[pytest.Item], order: random.Random) -> None:
    """Shuffle modules, and tests within each, so that fixtures of a module are made once."""
    modules: dict[Path, list[pytest.Item]] = {}
    for item in items:
        modules.setdefault(item.path, []).append(item)
    groups = list(modules.values())
    order.shuffle(groups)
    for group in groups:
        order.shuffle(group)
    items[:] = [item for group in groups for item in group]


def _folders(item: pytest.Item) -> tuple[str, ...]:
    return item.path.relative_to(Path(__file__).parent).parts[:-1]


def _not_linux() -> str | None:
    return None if sys.platform == "linux" else f"runs on {sys.platform}, not Linux"


def _not_macos() -> str | None:
    return None if sys.platform == "darwin" else f"runs on {sys.platform}, not macOS"


def _not_root() -> str | None:
    return None if os.geteuid() == 0 else f"runs as user {os.geteuid()}, not root"


def _no_fuse() -> str | None:
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        return f"/dev/fuse cannot be opened: {error.strerror}"
    return None


def _no_gpu() -> str | None:
    return None if Path("/dev/nvidia0").exists() else "no NVIDIA GPU (/dev/nvidia0)"


def _no_torch() -> str | None:
    return None if find_spec("torch") else "torch is not installed"


CAPABILITIES: dict[str, Callable[[], str | None]] = {
    "needs_linux": _not_linux,
    "needs_macos": _not_macos,
    "needs_root": _not_root,
    "needs_fuse": _no_fuse,
    "needs_gpu": _no_gpu,
    "needs_torch": _no_torch,
}
"""For each marker, a probe that returns what is missing, or None."""

NOT_IN_CI = {"needs_macos", "needs_gpu"}
"""What the machine of CI cannot have. Everything else it must have: there, a skip is a failure."""


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker, probe in CAPABILITIES.items():
        if item.get_closest_marker(marker) and (missing := probe()):
            pytest.skip(f"{marker}: {missing}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    excused = any(item.get_closest_marker(marker) for marker in NOT_IN_CI)
    if report.skipped and IN_CI and not excused and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI does not allow: {_reason(report.longrepr)}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if report.skipped and IN_CI:
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI does not allow: {_reason(report.longrepr)}"
    return report


def _reason(longrepr: object) -> object:
    return longrepr[2] if isinstance(longrepr, tuple) else longrepr


@pytest.fixture(autouse=True)
def unhandled_failures(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, leak_check: None
) -> Generator[None]:
    """Fail the test for a failure that nobody handled, where the hook would end the whole run.

    A test that expects one sets a hook of its own.
    """
    if not set(RUNTIME_FOLDERS).intersection(_folders(request.node)):
        yield
        return
    import danaus.actor

    unhandled: list[danaus.actor.MeshFailure] = []
    monkeypatch.setattr(danaus.actor, "unhandled_fault_hook", unhandled.append)
    yield
    if unhandled:
        reports = "\n".join(failure.report() for failure in unhandled)
        pytest.fail(f"failures that nobody handled:\n{reports}", pytrace=False)


@pytest.fixture(autouse=True)
def leak_check(request: pytest.FixtureRequest) -> Generator[None]:
    """Fail the test if it leaves a process, descriptor, thread or file; end what it left."""
    ignored = _ignored_kinds(request.node)
    before = snapshot()
    yield
    try:
        if set(RUNTIME_FOLDERS).intersection(_folders(request.node)):
            _stop_runtime()
    finally:
        if request.node.stash.get(_FAILED, False):
            ignored.add("fds")  # the traceback of the failure keeps objects open
        leaks = find_leaks(before, ignore=ignored, grace=_grace(request.config))
        leaks.kill()
    if leaks:
        pytest.fail(str(leaks), pytrace=False)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run if fixtures of modules or of the session left processes or files."""
    before, grace = session.config.stash[_START], _grace(session.config)
    leaks = find_leaks(before, ignore=("fds", "threads"), grace=grace)
    if leaks:
        leaks.kill()
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        reporter = session.config.pluginmanager.getplugin("terminalreporter")
        if isinstance(reporter, pytest.TerminalReporter):
            reporter.write_line(f"\nthe run as a whole: {leaks}", red=True)


def _grace(config: pytest.Config) -> float:
    return float(config.getoption("--leak-grace") or 0)


def _ignored_kinds(node: pytest.Item) -> set[str]:
    ignored: set[str] = set()
    for marker in node.iter_markers("leaks"):
        if not marker.args or not marker.kwargs.get("reason") or set(marker.args) - set(KINDS):
            usage = f'@pytest.mark.leaks("fds", reason="...") with kinds of {", ".join(KINDS)}'
            raise pytest.UsageError(f"{node.nodeid}: the leaks marker is {usage}.")
        ignored.update(marker.args)
    return ignored


def _stop_runtime() -> None:
    """End the client's runtime, if the test started one; the next test boots its own."""
    actor = sys.modules.get("danaus.actor")
    if actor is not None:
        actor.shutdown_context().get(10)


@pytest.fixture
def virtual_clock() -> VirtualClock:
    """A clock at 0 s that moves only when the test advances it."""
    return VirtualClock()
