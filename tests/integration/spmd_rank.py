"""One rank of a program that starts many times: what the tests of danaus.spmd launch.

Arguments: "file FOLDER" or "torch PORT", for the store, and options for host_mesh_from_store.
"""

import json
import os
import sys
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

from danaus.actor import Actor, current_rank, endpoint
from danaus.spmd import host_mesh_from_store
from danaus.testing import wait_until


class FileStore:
    """A store in a folder: the least that ranks can share."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def _path(self, key: str) -> Path:
        return self._folder / key.replace("/", "+")

    def set(self, key: str, value: str) -> None:
        made = self._path(f"{key}.{os.getpid()}")
        made.write_text(value)
        made.replace(self._path(key))

    def get(self, key: str) -> bytes:
        return self._path(key).read_bytes()

    def wait(self, keys: list[str], timeout: timedelta = timedelta(seconds=60)) -> None:
        wait_until(
            lambda: all(self._path(key).exists() for key in keys),
            timeout=timeout.total_seconds(),
            what=str(keys),
        )


class Where(Actor):
    @endpoint
    def tell(self) -> tuple[int, str | None]:
        return current_rank()["hosts"], os.environ.get("RANK")


def make_store(kind: str, place: str) -> Any:
    if kind == "file":
        return FileStore(place)
    store: Any = import_module("torch.distributed").TCPStore
    return store("127.0.0.1", int(place), is_master=os.environ["RANK"] == "0")


def main() -> None:
    kind, place, *options = sys.argv[1:]
    store = make_store(kind, place)
    hosts = host_mesh_from_store(store, **json.loads(options[0] if options else "{}"))
    if hosts is not None:
        actors = hosts.spawn_procs(per_host={"procs": 2}).spawn("where", Where)
        answers = list(actors.tell.call().get(40).values())
        sys.stdout.write(f"answers {json.dumps(answers)}\n")
        store.set("finished", "yes")
    store.wait(["finished"], timedelta(seconds=60))


if __name__ == "__main__":
    main()
