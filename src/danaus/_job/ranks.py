"""Which of several equal processes is this one: as torchrun, MPI and Slurm tell by environment."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Ranks", "rank_by_launcher"]

_LAUNCHERS: tuple[tuple[str, tuple[str, ...], tuple[str, str, str]], ...] = (
    # Launcher, names of rank, local rank and size; the first that has a rank counts.
    ("torchrun", ("RANK",), ("LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")),
    (
        "Open MPI",
        ("OMPI_COMM_WORLD_RANK",),
        ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ),
    ("MPI", ("PMI_RANK", "PMIX_RANK"), ("MPI_LOCALRANKID", "PMI_SIZE", "MPI_LOCALNRANKS")),
    ("Slurm", ("SLURM_PROCID",), ("SLURM_LOCALID", "SLURM_NTASKS", "SLURM_STEP_TASKS_PER_NODE")),
)
"""torchrun first: it may have been started by srun or mpirun itself."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """Where a process stands among those that a launcher has started.

    Attributes:
        rank: Its number among all, from 0.
        local_rank: Its number among those of its machine, from 0.
        world_size: How many there are.
        local_world_size: How many there are on each machine.

    Raises:
        ValueError: The numbers do not fit together.
    """

    rank: int
    local_rank: int
    world_size: int
    local_world_size: int

    def __post_init__(self) -> None:
        if self.local_world_size < 1 or self.world_size % self.local_world_size:
            raise ValueError(
                f"the world size {self.world_size} is not divisible by the local world size "
                f"{self.local_world_size}: each host must have as many processes"
            )
        if not 0 <= self.rank < self.world_size or not 0 <= self.local_rank < self.local_world_size:
            raise ValueError(
                f"rank {self.rank} of {self.world_size}, on its host {self.local_rank} of "
                f"{self.local_world_size}, cannot be"
            )

    @property
    def host(self) -> int:
        """Number of its host, from 0."""
        return self.rank // self.local_world_size

    @property
    def hosts(self) -> int:
        """How many hosts there are."""
        return self.world_size // self.local_world_size

    @classmethod
    def of(
        cls,
        rank: int | None = None,
        local_rank: int | None = None,
        world_size: int | None = None,
        local_world_size: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Ranks:
        """Those that are given, the others as the launcher says.

        Args:
            rank: As above; None for what the environment says, and so are the others.
            local_rank: As above.
            world_size: As above.
            local_world_size: As above.
            environment: Variables to read; by default those of this process.

        Raises:
            RuntimeError: One is neither given nor in the environment.
            ValueError: One is no number, or they do not fit together.
        """
        variables = os.environ if environment is None else environment
        given = (rank, local_rank, world_size, local_world_size)
        launcher, names = _launcher(variables)
        found = [
            _number(variables, launcher, name) if value is None else value
            for value, name in zip(given, names, strict=True)
        ]
        return cls(*found)


def rank_by_launcher(environment: Mapping[str, str] | None = None) -> int | None:
    """The number of this process among those of its launcher; None if there is none."""
    variables = os.environ if environment is None else environment
    _, (name, *_) = _launcher(variables)
    return int(variables[name]) if variables.get(name, "").isdigit() else None


def _launcher(variables: Mapping[str, str]) -> tuple[str, list[str]]:
    """The launcher, and its variables of rank, local rank, size and local size."""
    for launcher, ranks, others in _LAUNCHERS:
        for name in ranks:
            if name in variables:
                return launcher, [name, *others]
    launcher, ranks, others = _LAUNCHERS[0]
    return launcher, [*ranks, *others]


def _number(variables: Mapping[str, str], launcher: str, name: str) -> int:
    value = variables.get(name)
    if value is None:
        raise RuntimeError(
            f"{name} is not set: start this by {launcher}, or pass rank, local_rank, world_size "
            "and local_world_size"
        )
    found = re.fullmatch(r"(\d+)(?:\(x\d+\))?", value)  # Slurm: 4(x2), four on each of two nodes
    if found is None:
        raise ValueError(f"{name} is no number, or one that differs by machine: {value!r}")
    return int(found[1])
