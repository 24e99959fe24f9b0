"""What a spawn says of an actor."""

from __future__ import annotations

from typing import Any

__all__ = ["Birth"]


class Birth:
    """What a spawn says of an actor, beside its class and arguments."""

    __slots__ = ("labels", "name", "owner", "owner_actor", "owner_address", "path", "rank", "sizes")

    def __init__(self, fields: dict[str, Any]) -> None:
        self.name: str = fields["name"]
        self.rank: int = fields["rank"]
        self.labels: list[str] = fields["labels"]
        self.sizes: list[int] = fields["sizes"]
        self.owner: str = fields["owner"]
        """Process of the actor that spawned the mesh."""
        self.owner_actor: str = fields["owner_actor"]
        self.owner_address: str = fields["owner_address"]
        self.path: str = fields["path"]
        """The owner's own path, for people."""
