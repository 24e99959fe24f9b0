"""What a run of the demo shall do: the values that the driver and all its actors share."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DEFAULT_STEPS", "MAX_TRAINERS", "Plan"]

#: Steps of a run; two cores make 30 to 80 in a second.
DEFAULT_STEPS = 600
#: More gradients would not add up in 32 bits; see `danaus_cli.demo.model`.
MAX_TRAINERS = 64


@dataclass(frozen=True, slots=True)
class Plan:
    """One run of the demo."""

    steps: int = DEFAULT_STEPS
    """Steps of the optimizer."""
    trainers: int = 4
    """Hosts that train."""
    loaders: int = 1
    """Hosts that read text."""
    kill_one: bool = False
    """Whether a trainer's process is killed half way."""
    seed: int = 0
    """Decides the first weights, the batches and the samples."""
    batch: int = 256
    """Characters that each trainer predicts in a step."""
    context: int = 16
    """Characters that a prediction looks at."""
    embedding: int = 24
    """Numbers that describe one character."""
    hidden: int = 512
    """Units of the hidden layer."""
    examination: int = 4096
    """Held-out characters that the loss before and after is measured on."""
    text: str = ""
    """A folder whose text is learned from; empty for Danaus's own text."""
    prompt: str = "def "
    """What the samples of the model's writing begin with."""
    sample: int = 240
    """Characters of a sample."""
    temperature: float = 0.5
    """Of the samples; below 1 the model writes what it is surer of."""

    @property
    def victim(self) -> int:
        """The rank of the trainer that `kill_one` kills: one in the middle."""
        return self.trainers // 2

    @property
    def fatal_step(self) -> int:
        """The step in which `kill_one` kills."""
        return self.steps // 2
