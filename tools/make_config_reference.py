"""Write docs/reference/config.md from the declarations of the keys.

`python tools/make_config_reference.py` writes the page; with `--check` it writes nothing, and says
by its exit code whether the page is as it would be written.
"""

# ruff: noqa: INP001  # scripts, no package

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from danaus._config.keys import KEYS, Key
from danaus._config.kinds import Choice, Duration, Flag, Integer, Kind, Share, Text, Transport

__all__ = ["main", "page"]

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "config.md"

HEAD = """\
<!-- Written by tools/make_config_reference.py from src/danaus/_config/keys.py: change it there. -->

# Configuration

Every key has a default that is right for most programs.
A value comes from the last of these places that has one:

1. the default, below
2. a TOML file, keys at its top: `DANAUS_CONFIG` names it, otherwise `~/.config/danaus/config.toml`
3. the environment variable of the key
4. `danaus.config.configure(key=value)`, or `with danaus.config.configured(key=value):`

What `configure` sets goes along to the processes that are spawned afterwards.
An unknown key is a `ValueError` that lists the known ones; a value of another type is a `TypeError`.

Durations are texts such as `"30s"`, `"1m 30s"` or `"500ms"`.
Flags in the environment are `1`/`0`, `true`/`false`, `yes`/`no`, `on`/`off`.

```python
from danaus.config import configured, get_global_config

with configured(process_exit_timeout="90s"):
    print(get_global_config()["process_exit_timeout"])
```

```output
1m 30s
```
"""

COMPATIBLE = """
## Accepted, without effect

Programs that were written for the compatible interface set these.
They are checked and read back like any other key, and change nothing.
"""

TYPES: dict[type[Kind], str] = {
    Choice: "an `Encoding`",
    Duration: "duration",
    Flag: "bool",
    Integer: "int",
    Share: "float, 0 to 1",
    Text: "str",
    Transport: "transport",
}


def page() -> str:
    """The text of the page."""
    keys = KEYS.values()
    effective = [f"\n## Keys\n\n{_table(key for key in keys if key.has_effect)}"]
    return "".join(
        [HEAD, *effective, COMPATIBLE, "\n", _table(k for k in keys if not k.has_effect)]
    )


def _table(keys: Iterable[Key]) -> str:
    rows = ["| key | type | default | variable | meaning |\n|---|---|---|---|---|\n"]
    rows += [
        f"| `{key.name}` | {TYPES[type(key.kind)]} | {_shown(key)} | `{key.env}` | {key.doc} |\n"
        for key in keys
    ]
    return "".join(rows)


def _shown(key: Key) -> str:
    if key.default in ("", None):
        return "empty" if key.default == "" else "none"
    return f"`{key.default}`"


def main(arguments: list[str]) -> int:
    """Write or check the page; returns the exit code."""
    if "--check" in arguments:
        return int(not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != page())
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
