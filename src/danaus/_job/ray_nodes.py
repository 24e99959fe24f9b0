"""Whether a Ray cluster can ever have the hosts of a job, before it is asked for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

__all__ = ["shortage"]


def shortage(
    nodes: Sequence[Mapping[str, float]], bundles: Sequence[Mapping[str, float]], *, spread: bool
) -> str | None:
    """What a cluster lacks to ever have these bundles; None if it has all.

    Args:
        nodes: Resources of each node, whether they are in use or not.
        bundles: Resources of each host.
        spread: Whether each needs a node of its own.
    """
    fitting = [[i for i, node in enumerate(nodes) if _fits(bundle, node)] for bundle in bundles]
    for bundle, places in zip(bundles, fitting, strict=True):
        if not places:
            return (
                f"none of its {len(nodes)} nodes has {_text(bundle)}; they have "
                f"{'; '.join(sorted({_text(node, bundle) for node in nodes}))}"
            )
    if spread:
        taken = _match(fitting)
        if taken < len(bundles):
            enough = len({place for places in fitting for place in places})
            return (
                f"{len(bundles)} nodes are needed, one for each host, and {enough} of its "
                f"{len(nodes)} nodes have what one needs ({_text(bundles[0])})"
                if enough < len(bundles)
                else f"only {taken} of {len(bundles)} hosts can have a node of their own"
            )
        return None
    for name in {name for bundle in bundles for name in bundle}:
        needed = sum(bundle.get(name, 0) for bundle in bundles)
        there = sum(node.get(name, 0) for node in nodes)
        if needed > there:
            return f"{needed:g} {name} are needed, and its nodes have {there:g} in all"
    return None


def _fits(bundle: Mapping[str, float], node: Mapping[str, float]) -> bool:
    return all(node.get(name, 0) >= amount for name, amount in bundle.items())


def _match(fitting: Sequence[Sequence[int]]) -> int:
    """How many of the hosts can have a node of their own, at most, by augmenting paths."""
    holder: dict[int, int] = {}
    node_of: dict[int, int] = {}
    for host in range(len(fitting)):
        seen: dict[int, int] = {}
        free = _free_node(host, fitting, holder, seen)
        while free is not None:
            owner = seen[free]
            holder[free] = owner
            free, node_of[owner] = node_of.get(owner), free
    return len(holder)


def _free_node(
    host: int, fitting: Sequence[Sequence[int]], holder: Mapping[int, int], seen: dict[int, int]
) -> int | None:
    """A node that becomes free for ``host`` if others move; ``seen`` says who looked where."""
    queue = [host]
    for one in queue:
        for node in fitting[one]:
            if node not in seen:
                seen[node] = one
                if node not in holder:
                    return node
                queue.append(holder[node])
    return None


def _text(resources: Mapping[str, float], names: Iterable[str] | None = None) -> str:
    """Resources for people, or those of these names."""
    names = sorted(resources if names is None else names)
    return ", ".join(f"{name} {resources.get(name, 0):g}" for name in names)
