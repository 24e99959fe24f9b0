"""Kinds of frames, and what their routing holds.

Kinds below `FIRST_CONTROL` go from one process to another; routing[0] is the receiver's id, so
that a host agent can pass them on without knowing more. The others are between a process and a
host agent.
"""

from __future__ import annotations

__all__ = [
    "ASK",
    "BULK_DONE",
    "CALL",
    "CAST",
    "DIAL",
    "FIRST_CONTROL",
    "HANDOVER",
    "HELLO",
    "HERE",
    "KEEP",
    "LINK_ACK",
    "LINK_BYE",
    "LINK_HELLO",
    "LOG",
    "LOG_END",
    "LOG_FLUSH",
    "LOG_LEVEL",
    "LOG_OPTIONS",
    "LOG_WINDOW",
    "PREFACE",
    "PROBE",
    "PROC_EXIT",
    "PROC_UP",
    "READY",
    "REFUSED",
    "REPLY",
    "SHUTDOWN",
    "SPAWN_ACTOR",
    "SPAWN_PROCS",
    "STOP",
    "STOP_ACTOR",
    "STOP_PROCS",
    "SUPERVISE",
    "THROUGH",
    "WATCH",
    "WELCOME",
]

CALL = 1
"""[to, actor, from, from actor, sequence, method, reply port or -1, rank, extent]"""
REPLY = 2
"""[to, port, rank, status]: the answer to a call, or a message to a port"""
SPAWN_ACTOR = 3
"""[to, actor, from, from actor, sequence, description]"""
STOP_ACTOR = 4
"""[to, actor, from, from actor, sequence, reason, reply port, rank]"""
SUPERVISE = 5
"""[to, owner actor, mesh, rank, failure, cause, failed in its clean-up?]"""
BULK_DONE = 6
"""[to, from, bytes]: so many bytes of shared memory were taken over"""
PROBE = 7
"""[to, actor, [from, port], origin, steps]: does that call wait for the origin of this probe?"""
HERE = 8
"""[to, from]: first frame of the process that was dialled: the connection has come to it"""

FIRST_CONTROL = 16
FIRST_OF_TREE, LAST_OF_TREE = 30, 39

READY = 16
"""[]: proc to its agent, first of all: it runs"""
WELCOME = 17
"""[host name, agent pid, versions]; see `danaus._proc.versions`"""
SPAWN_PROCS = 18
"""[template, [proc, ...]]"""
PROC_UP = 19
"""[proc, pid]"""
PROC_EXIT = 20
"""[proc, exit]"""
STOP_PROCS = 21
"""[[proc, ...], reason, seconds until SIGTERM]"""
STOP = 22
"""[reason, seconds]: agent to proc: end"""
HANDOVER = 23
"""[from, its address, name of the link]: agent to process; the connection of a peer that dialled
it accompanies the frame"""
REFUSED = 24
"""[proc, exit or None]: what was dialled is dead, or was never heard of; [empty, text]: the agent
refuses this process"""
SHUTDOWN = 25
"""[]: end all procs and the agent"""
LOG = 26
"""[client, [mesh, its name, host, pid, rank, procs of the mesh], stream, [piece, ...]]: output"""
LOG_OPTIONS = 27
"""[client, mesh, [[proc, rank], ...], all of the mesh?, show?, window or None, level, port]

To an agent: how output is to be shown from now on; each proc answers to the port."""
WATCH = 28
"""[proc]: tell me when it ends"""
KEEP = 29
"""[keep?]: the agent outlives its owner; it answers with another `WELCOME`"""
CAST = 30
"""a `CastHead`: hand the body to the members of a group on this host, and pass it on below"""
GROUP = 31
"""[group, sending process, branch]: who is meant by casts to that group"""
TREE_ACK = 32
"""[[cast, ...], {cast: batch}]: all below me have these casts; these batches are beyond loss"""
GATHER = 33
"""[cast, number, since, complete?]: replies; see `danaus._wire.tree_frames`"""
TREE_ADOPT = 34
"""[cast, depth]: your parent is dead, and I take its place"""
TREE_CLOSE = 35
"""[cast]: nobody waits for its replies any more"""
GROUP_WANTED = 36
"""[group]: I do not know it; say it, and cast again"""
GROUP_END = 37
"""[group]: there will be no more casts to it"""
TREE_LOST = 38
"""[sending process, host]: there is no way to that host, and it may lack a cast"""

COMBINE = 39
"""[token, routing of a `GATHER`, function]: agent to proc: combine these replies; the proc answers
with [token, routing] and the batch that is left"""
LOG_END = 40
"""[client, mesh, host, pid, asked for?]: a proc whose output was sent has ended"""
LOG_WINDOW = 41
"""[client, mesh, seconds or None]: what follows of the mesh is to be merged in such a window"""
LOG_LEVEL = 42
"""[level, asker, port, rank]: agent to proc: let Python's logging pass from this level on"""
LOG_FLUSH = 43
"""[port, rank]: client to agent: send what my procs have written by now, then answer so"""

LINK_HELLO = 60
"""[incarnation, expected incarnation, received]: first on a connection between hosts"""
LINK_ACK = 61
"""[received]: so many frames of the link have come"""
LINK_BYE = 62
"""[reason]: the link is closed on purpose"""

AGENT = "agent "
"""How the id begins under which an agent introduces itself to another."""
DIAL = "dial"
ASK = "ask"
HELLO = "hello"
THROUGH = "through"
PREFACE = b"DAN1"
"""First bytes of a connection to an agent, before the length and msgpack of what it wants."""
