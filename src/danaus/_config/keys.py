"""Which keys has the configuration, and what does each one change?

One declaration per key, in one table, from which checking, environment names, listings and
documentation follow. A key without effect is one that programs written for the compatible
interface set: it is checked and read back like any other, and changes nothing here; its text says
why nothing is needed. Keys that are not in the table are refused.
"""

from __future__ import annotations

from danaus._config.kinds import Choice, Duration, Flag, Integer, Kind, Share, Text, Transport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from danaus._config.kinds import Plain

__all__ = ["KEYS", "Key", "find_key"]

_FLAG, _TEXT, _DURATION = Flag(), Text(), Duration()
_COUNT, _POSITIVE = Integer(), Integer(minimum=1)

_MIB = 1 << 20


class Key:
    """The declaration of one key; immutable.

    Not a dataclass: generating one costs more at import than the whole table.
    """

    __slots__ = ("default", "doc", "env", "has_effect", "kind", "name")

    name: str
    """What programs and files call it."""
    kind: Kind
    """Which values it takes."""
    default: Plain
    """Value, in plain form, where no layer sets one."""
    doc: str
    """What it changes, for people."""
    has_effect: bool
    """False if and only if it is accepted for compatibility and changes nothing."""
    env: str
    """Environment variable that sets it."""

    def __init__(
        self,
        name: str,
        kind: Kind,
        *,
        default: Plain,
        doc: str,
        has_effect: bool = True,
        env: str = "",
    ) -> None:
        fields = (name, kind, default, doc, has_effect, env or f"DANAUS_{name.upper()}")
        for field, value in zip(
            ("name", "kind", "default", "doc", "has_effect", "env"), fields, strict=True
        ):
            object.__setattr__(self, field, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"config key {self.name!r} is a declaration: cannot set {name!r}.")

    def __repr__(self) -> str:
        return f"<Key {self.name} default {self.default!r}>"


def find_key(name: str) -> Key:
    """Return the declaration of a key.

    Raises:
        ValueError: There is none; the text suggests the nearest one and lists all.
    """
    key = KEYS.get(name)
    if key is not None:
        return key
    # Only on the way to an error: the import costs several milliseconds.
    from difflib import get_close_matches

    near = get_close_matches(name, KEYS, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(
        f"unknown config key {name[:60]!r}.{hint} Accepted keys: {', '.join(sorted(KEYS))}."
    )


def _compatible(name: str, kind: Kind, *, default: Plain, why: str) -> Key:
    """Declare a key that changes nothing here."""
    doc = f"Accepted for compatibility: {why}"
    return Key(name, kind, default=default, doc=doc, has_effect=False)


_LIFE_AND_DEATH = (
    Key(
        "message_delivery_timeout",
        _DURATION,
        default="30s",
        doc="How long a message may fail to reach its peer before it counts as undeliverable. A slow "
        "receiver or a large message does not count, only a peer that cannot be reached.",
    ),
    Key(
        "stop_actor_timeout",
        _DURATION,
        default="10s",
        doc="How long stopping waits for an actor to finish its queued work before it is given up.",
    ),
    Key(
        "cleanup_timeout",
        _DURATION,
        default="3s",
        doc="How long one actor's `__cleanup__` may take.",
    ),
    Key(
        "process_exit_timeout",
        _DURATION,
        default="10s",
        doc="How long a proc that was told to end may take before it is killed.",
    ),
    Key(
        "host_spawn_ready_timeout",
        _DURATION,
        default="30s",
        doc="How long a new host or proc may take to report that it runs.",
    ),
    Key(
        "mesh_attach_config_timeout",
        _DURATION,
        default="1m",
        doc="How long a worker that is attached to may take to answer, before the attach fails.",
    ),
)

_HOSTS = (
    Key(
        "host_dead_after",
        _DURATION,
        default="10s",
        doc="How long a host may be silent, or unreachable, before it counts as dead.",
    ),
    Key(
        "link_resume_within",
        _DURATION,
        default="3s",
        doc="How long a client's hosts wait for it when its connection was closed without a word: "
        "within that time it connects again and nothing is lost; later it counts as gone, and its "
        "procs are ended. Where the connection was broken, host_dead_after is added.",
    ),
)

_MESSAGES = (
    Key(
        "direct_links_max",
        _COUNT,
        default=128,
        doc="Number of procs that a sender dials directly; casts to more of them go through the "
        "agents of their hosts.",
    ),
    Key(
        "max_cast_fanout",
        _POSITIVE,
        default=16,
        doc="Number of hosts that a host passes a cast on to, at least 2. Casts to more hosts go "
        "down a tree, and their replies come back up it.",
    ),
    Key(
        "bulk_threshold",
        _POSITIVE,
        default=256 << 10,
        doc="Bytes from which a buffer in a message is sent apart from the pickle, uncopied.",
    ),
    Key(
        "send_queue_bytes",
        _POSITIVE,
        default=16 * _MIB,
        doc="Bytes that may wait for one peer before its senders block.",
    ),
    Key(
        "bulk_inflight_bytes",
        _COUNT,
        default=0,
        doc="Bytes of shared memory that messages under way may hold before their senders block. 0: "
        "a quarter of the memory.",
    ),
)

_LOGS = (
    Key(
        "enable_log_forwarding",
        _FLAG,
        default=True,
        doc="Whether the output of procs that are spawned from now on is shown by the client as it "
        "happens; `ProcMesh.logging_option` changes it for a mesh at any time.",
    ),
    Key(
        "prefix_with_rank",
        _FLAG,
        default=True,
        doc="Whether forwarded lines begin with the rank of their proc, after its host and pid.",
    ),
    Key(
        "log_aggregate_window",
        _DURATION,
        default="100ms",
        doc="Time for which a line waits for the same line of other ranks, to be shown once with "
        "their number. Counts for meshes of several procs, until `logging_option` says otherwise. "
        "0s: every line by itself, at once.",
    ),
    Key(
        "tail_log_lines",
        _COUNT,
        default=100,
        doc="Last lines of a proc's stderr, of at most 16 KiB, that are kept for the report of its "
        "failure.",
    ),
    Key(
        "enable_file_capture",
        _FLAG,
        default=True,
        doc="Whether the whole output of every proc that is spawned from now on is written to a "
        "file of its own, on its host.",
    ),
    Key(
        "prefix_python_logs_with_actor",
        _FLAG,
        default=True,
        doc="Whether records of Python's logging made in an actor begin with `[actor=...]`.",
    ),
)

_OF_DELIVERY = "sequence numbers decide order and loss, and links block instead of dropping."
_OF_SPAWNING = "spawning and state are events of the host agent; nothing is polled."
_OF_BUFFERS = "buffers choose the shortest way to the memory by themselves."

_COMPATIBLE = (
    _compatible(
        "supervision_watchdog_timeout",
        _DURATION,
        default="2m",
        why="a death on this machine is known in milliseconds, and nothing is guessed from silence.",
    ),
    _compatible(
        "mesh_orphan_timeout",
        _DURATION,
        default="1m",
        why="the end of a client is known at once, and its procs end with it.",
    ),
    _compatible("codec_max_frame_length", _COUNT, default=0, why="messages have no limit of size."),
    _compatible(
        "read_log_buffer",
        _POSITIVE,
        default=100,
        why="output is read as it comes, and back-pressure bounds it.",
    ),
    _compatible(
        "force_file_log", _FLAG, default=False, why="Danaus keeps no log besides the procs' output."
    ),
    _compatible(
        "default_transport",
        Transport(),
        default="unix",
        why="where a peer lives decides: Unix sockets on a host, TLS between hosts.",
    ),
    _compatible(
        "default_encoding",
        Choice(),
        default="Multipart",
        why="messages have one encoding, pickle with its buffers apart.",
    ),
    _compatible("message_ack_time_interval", _DURATION, default="500ms", why=_OF_DELIVERY),
    _compatible("message_ack_every_n_messages", _POSITIVE, default=1000, why=_OF_DELIVERY),
    _compatible(
        "message_ttl_default", _POSITIVE, default=64, why="no message is forwarded in a circle."
    ),
    _compatible(
        "message_latency_sampling_rate", Share(), default=0.01, why="latency is not sampled."
    ),
    _compatible("enable_dest_actor_reordering_buffer", _FLAG, default=True, why=_OF_DELIVERY),
    _compatible("split_max_buffer_size", _POSITIVE, default=5, why=_OF_DELIVERY),
    _compatible("split_max_buffer_age", _DURATION, default="50ms", why=_OF_DELIVERY),
    _compatible(
        "channel_net_rx_buffer_full_check_interval", _DURATION, default="5s", why=_OF_DELIVERY
    ),
    _compatible(
        "small_write_threshold", _COUNT, default=256, why="small frames are always one write."
    ),
    _compatible("max_cast_dimension_size", _POSITIVE, default=16, why="casts have no dimensions."),
    _compatible(
        "mesh_bootstrap_enable_pdeathsig",
        _FLAG,
        default=True,
        why="a proc never outlives its owner.",
    ),
    _compatible(
        "mesh_terminate_concurrency", _POSITIVE, default=16, why="all procs are ended at once."
    ),
    _compatible(
        "mesh_terminate_timeout", _DURATION, default="10s", why="`process_exit_timeout` counts."
    ),
    _compatible("mesh_proc_spawn_max_idle", _DURATION, default="30s", why=_OF_SPAWNING),
    _compatible("actor_spawn_max_idle", _DURATION, default="30s", why=_OF_SPAWNING),
    _compatible("get_actor_state_max_idle", _DURATION, default="30s", why=_OF_SPAWNING),
    _compatible("get_proc_state_max_idle", _DURATION, default="1m", why=_OF_SPAWNING),
    _compatible("proc_stop_max_idle", _DURATION, default="30s", why=_OF_SPAWNING),
    _compatible("mesh_admin_addr", _TEXT, default="[::]:1729", why="no admin server is started."),
    Key(
        "pyspy_bin",
        _TEXT,
        default="",
        doc="Accepted for compatibility: stacks are taken without py-spy.",
        has_effect=False,
        env="PYSPY_BIN",
    ),
    _compatible("rdma_allow_tcp_fallback", _FLAG, default=True, why=_OF_BUFFERS),
    _compatible("rdma_disable_ibverbs", _FLAG, default=False, why=_OF_BUFFERS),
    _compatible("rdma_ibverbs_target", _TEXT, default="", why=_OF_BUFFERS),
    _compatible("rdma_peer_device_affinity", _TEXT, default="", why=_OF_BUFFERS),
    _compatible(
        "rdma_max_nics_per_buffer", Integer(minimum=1, optional=True), default=None, why=_OF_BUFFERS
    ),
    _compatible("rdma_max_chunk_size_mb", _POSITIVE, default=64, why=_OF_BUFFERS),
    _compatible("rdma_runtime_worker_threads", _POSITIVE, default=4, why=_OF_BUFFERS),
)

KEYS: dict[str, Key] = {
    key.name: key for key in (*_LIFE_AND_DEATH, *_HOSTS, *_MESSAGES, *_LOGS, *_COMPATIBLE)
}
"""Every key by its name."""
