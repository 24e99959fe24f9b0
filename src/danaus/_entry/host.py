"""Start of a host: an agent and, forked from it before it opens anything, its zygote."""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import time

from danaus._entry import proc as _proc  # before the fork: each proc has it at no cost
from danaus._net.job_key import JobKey
from danaus._proc.agent import Agent
from danaus._proc.host import KEY_VARIABLE, Service
from danaus._proc.place import ERRORS, remove_directory
from danaus._proc.system import raise_file_limit
from danaus._proc.zygote import Zygote

__all__ = ["main"]

_READING_TIME = 0.5
"""Seconds in which clients can read the last words of an agent that has crashed."""


def main() -> None:
    """Entry: the argument says what to serve, as `danaus._proc.host.Service` wrote it."""
    service = Service.read(sys.argv[1])
    address = service.address
    os.environ.pop("_DANAUS_PATH", None)
    # The key is for the agent and what it starts as procs, not for what these start in turn.
    key = JobKey.load(os.environ.pop(KEY_VARIABLE)) if service.remote >= 0 else None
    files = raise_file_limit()  # a host needs four descriptors a proc; procs get what they had
    ours, theirs = socket.socketpair()
    gc.collect()
    gc.freeze()  # the zygote's objects must not be touched, and so copied, by its children
    pid = os.fork()
    if pid == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        ours.close()
        os.close(service.listener)
        if service.remote >= 0:
            os.close(service.remote)
        launch = Zygote(theirs, files).serve()
        if launch is None:
            _remove_what_is_left(os.path.dirname(address))
            os._exit(0)
        del theirs
        _proc.run_proc(launch)
        return
    theirs.close()
    interruptible = signal.signal(signal.SIGINT, signal.SIG_IGN) is not signal.SIG_IGN
    listener = socket.socket(fileno=service.listener)
    agent = Agent(listener, address, service.name, service.owner, ours, pid)
    if key is not None:
        agent.serve_hosts(socket.socket(fileno=service.remote), key)
    if service.lifeline >= 0:
        agent.end_with(service.lifeline)
    ending = [signal.SIGTERM]
    if not service.owner and interruptible:
        ending.append(signal.SIGINT)  # a worker in somebody's terminal
    for number in ending:
        signal.signal(number, lambda _number, _frame: agent.reactor.call_soon(agent.shut_down))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})  # it may have come already
    agent.run()


def _remove_what_is_left(directory: str) -> None:
    """An agent that was killed, or has crashed, could not remove its directory."""
    errors = os.path.join(directory, ERRORS)
    if os.path.exists(errors) and os.path.getsize(errors):
        time.sleep(_READING_TIME)
    remove_directory(directory)


if __name__ == "__main__":
    main()
