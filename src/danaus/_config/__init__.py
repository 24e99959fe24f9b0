"""The configuration of this process, as the other layers of Danaus read it.

``get("stop_actor_timeout")`` is the value now, durations in seconds. ``snapshot_runtime()`` is
what the program set, in values that JSON can carry, and ``install_runtime()`` puts it in force
in a process that was spawned. Programs use `danaus.config`.

This package is at the bottom of the house: it imports nothing of Danaus outside itself.
"""

from __future__ import annotations

from danaus._config.keys import KEYS, Key, find_key
from danaus._config.layers import LAYERS, Layers

__all__ = [
    "KEYS",
    "LAYERS",
    "Key",
    "Layers",
    "find_key",
    "get",
    "install_runtime",
    "reload",
    "snapshot_runtime",
]

get = LAYERS.get
snapshot_runtime = LAYERS.snapshot
install_runtime = LAYERS.install
reload = LAYERS.reload
