"""Names of host meshes, attributes of a job's state, and their sizes."""

from __future__ import annotations

from collections.abc import Collection

__all__ = ["check_mesh_name", "check_node_count"]


def check_mesh_name(name: object, known: Collection[str] = ()) -> str:
    """The name of a host mesh.

    Raises:
        TypeError: It is no text.
        ValueError: It cannot be an attribute, or is known already.
    """
    if not isinstance(name, str):
        raise TypeError(f"the name of a host mesh is a str, got {name!r}")
    if not name or not name.isprintable() or name.startswith("_"):
        raise ValueError(
            f"{name!r} cannot be the name of a host mesh: it is an attribute of the job's state, "
            "so it has printable characters and does not begin with _"
        )
    if name in known:
        raise ValueError(f"there is a host mesh {name!r} already")
    return name


def check_node_count(name: str, nodes: object) -> int:
    """The number of nodes of a host mesh.

    Raises:
        TypeError: It is no number.
        ValueError: There is no node.
    """
    if not isinstance(nodes, int) or isinstance(nodes, bool):
        raise TypeError(f"host mesh {name!r} needs a number of nodes, got {nodes!r}")
    if nodes < 1:
        raise ValueError(f"host mesh {name!r} needs at least 1 node, got {nodes}")
    return nodes
