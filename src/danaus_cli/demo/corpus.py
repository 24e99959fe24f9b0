"""The text that the demo learns from: which files, which characters, which of them are held out.

It is real text that every installation has: the sources and documentation of Danaus itself, and,
where they are too few, modules of Python's standard library.
"""

from __future__ import annotations

import importlib.util
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from danaus_cli.demo.model import SymbolArray

__all__ = ["SYMBOLS", "Corpus", "TextFile", "decode", "encode", "find_text", "load_corpus"]

#: Printable ASCII and the line's end; one more symbol stands for every other character.
ALPHABET = "\n" + "".join(map(chr, range(0x20, 0x7F)))
OTHER = len(ALPHABET)
#: Number of symbols.
SYMBOLS = OTHER + 1

#: Danaus's own text is topped up with Python's library until there is so much of it.
ENOUGH_CHARACTERS = 1_000_000
#: Every `HELD_OUT`-th block of this many characters is never trained on.
BLOCK_CHARACTERS = 2048
HELD_OUT = 20

#: Folders of a checkout that hold our own text, and the endings of it.
FOLDERS = ("src", "docs", "examples", "benchmarks", "tests")
ENDINGS = (".py", ".md", ".txt")

_code_of = np.full(256, OTHER, np.uint8)
_code_of[np.frombuffer(ALPHABET.encode(), np.uint8)] = np.arange(OTHER, dtype=np.uint8)


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file to learn from."""

    path: Path
    origin: str
    """Whose it is: "danaus", "python", or "given" for what the user named."""
    characters: int
    """Its size; in bytes, which is nearly the same here."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """A text as symbols, parted into what may be learned from and what is held out."""

    training: SymbolArray
    held_out: SymbolArray

    def batch(
        self, key: tuple[int, ...], size: int, context: int
    ) -> tuple[SymbolArray, SymbolArray]:
        """Draw places of the training text; the same ``key`` draws the same.

        Args:
            key: Seeds the draw, for instance (seed, trainer, step).
            size: How many places.
            context: Characters before each.

        Returns:
            Contexts, shape ``(size, context)``, and targets, shape ``(size,)``.
        """
        starts = np.random.default_rng(key).integers(0, len(self.training) - context, size)
        return _cut(self.training, starts, context)

    def examination(self, size: int, context: int) -> tuple[SymbolArray, SymbolArray]:
        """At most ``size`` places of the held-out text, evenly spread; returns as `batch`."""
        places = len(self.held_out) - context
        starts = np.linspace(0, places - 1, min(size, places)).astype(np.int64)
        return _cut(self.held_out, starts, context)


def encode(text: str) -> SymbolArray:
    """The symbols of a text, one a character."""
    return _code_of[np.frombuffer(text.encode("latin-1", "replace"), np.uint8)]


def decode(symbols: SymbolArray) -> str:
    """The text of symbols; what is outside the alphabet shows as a question mark."""
    return "".join((ALPHABET + "?")[symbol] for symbol in symbols)


def find_text(folder: str = "", *, enough: int = ENOUGH_CHARACTERS) -> list[TextFile]:
    """The files to learn from, in an order that does not depend on the file system.

    Args:
        folder: Where they are; empty for Danaus's own text and Python's library.
        enough: Characters from which on the library is not needed.
    """
    if folder:
        return list(_described(_texts(Path(folder)), "given"))
    files = list(_described(_own_files(), "danaus"))
    total = sum(file.characters for file in files)
    library = Path(sysconfig.get_path("stdlib"))
    for file in _described(sorted(library.glob("*.py")), "python"):
        if total >= enough:
            break
        files.append(file)
        total += file.characters
    return files


def load_corpus(files: Iterable[TextFile]) -> Corpus:
    """Read files and hold every `HELD_OUT`-th block of them out.

    Raises:
        ValueError: There is less text than one held-out block and one to train on.
    """
    texts = (file.path.read_text("utf-8", "replace") for file in files)
    symbols = encode("\n".join(texts))
    blocks = [
        symbols[start : start + BLOCK_CHARACTERS]
        for start in range(0, len(symbols), BLOCK_CHARACTERS)
    ]
    held_out = blocks[HELD_OUT // 2 :: HELD_OUT]
    training = [block for number, block in enumerate(blocks) if number % HELD_OUT != HELD_OUT // 2]
    if not held_out:
        raise ValueError(
            f"{len(symbols)} characters are too few to learn from; "
            f"at least {(HELD_OUT // 2 + 1) * BLOCK_CHARACTERS} are needed"
        )
    return Corpus(np.concatenate(training), np.concatenate(held_out))


def _own_files() -> list[Path]:
    """Danaus's text: of its checkout when it runs from one, else of the installed packages."""
    packages = [_package_folder("danaus"), _package_folder("danaus_cli")]
    root = packages[0].parent.parent
    if (root / "pyproject.toml").is_file() and packages[0].parent.name == "src":
        folders = [root / name for name in FOLDERS]
        return sorted(root.glob("*.md")) + [file for folder in folders for file in _texts(folder)]
    return [file for folder in packages for file in _texts(folder)]


def _package_folder(name: str) -> Path:
    specification = importlib.util.find_spec(name)
    assert specification is not None
    assert specification.origin is not None
    return Path(specification.origin).parent


def _texts(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.rglob("*")
        # Hidden folders hold other people's programs, such as those that benchmarks compare with.
        if path.suffix in ENDINGS
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )


def _described(paths: Iterable[Path], origin: str) -> Iterator[TextFile]:
    for path in paths:
        if path.is_file():  # also leaves out links that lead nowhere
            yield TextFile(path, origin, path.stat().st_size)


def _cut(
    symbols: SymbolArray, starts: np.ndarray[tuple[int], np.dtype[np.int64]], context: int
) -> tuple[SymbolArray, SymbolArray]:
    contexts = symbols[starts[:, np.newaxis] + np.arange(context)]
    return contexts, symbols[starts + context]
