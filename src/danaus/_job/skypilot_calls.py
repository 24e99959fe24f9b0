"""What Danaus asks of SkyPilot: all calls to its library are here, and nothing else is."""

from __future__ import annotations

import importlib
import io
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from danaus.errors import MissingExtra

__all__ = ["GONE", "SkyPilot"]

GONE = "gone"
"""State of a cluster that SkyPilot does not know."""


class SkyPilot:
    """The calls to SkyPilot's library, each of which waits for its end.

    Raises:
        MissingExtra: It is not installed.
    """

    def __init__(self) -> None:
        if find_spec("sky") is None:
            raise MissingExtra("skypilot", "skypilot")
        self._sky: Any = importlib.import_module("sky")

    def task(self, config: Mapping[str, Any]) -> Any:
        """The task that a configuration, as in SkyPilot's YAML files, describes.

        Raises:
            ValueError: SkyPilot refuses it.
        """
        rest = dict(config)
        secrets = rest.pop("secrets", {})
        try:
            task = self._sky.Task.from_yaml_config(rest)
            # Afterwards: the task keeps the configuration that it was made from, as it is.
            return task.update_secrets(secrets)
        except Exception as error:  # SkyPilot raises many kinds
            raise ValueError(f"SkyPilot refuses the task: {error}") from error

    def launch(
        self, config: Mapping[str, Any], cluster: str, *, idle_minutes: int | None, down: bool
    ) -> int | None:
        """Provision a cluster and start a task there; the number of the task's run.

        Raises:
            ValueError: SkyPilot refuses the task.
            RuntimeError: There is no such cluster to be had, in SkyPilot's words.
        """
        sky = self._sky
        task = self.task(config)
        try:
            number, _ = sky.get(
                sky.launch(
                    task,
                    cluster_name=cluster,
                    idle_minutes_to_autostop=idle_minutes,
                    down=down and idle_minutes is not None,
                )
            )
        except Exception as error:  # SkyPilot raises many kinds
            raise RuntimeError(
                f"SkyPilot could not launch cluster {cluster!r}: {type(error).__name__}: {error}"
            ) from error
        return number

    def state(self, cluster: str) -> str:
        """UP, INIT, STOPPED and the like; `GONE` when there is no such cluster."""
        record = self._record(cluster)
        return GONE if record is None else str(record["status"].value)

    def addresses(self, cluster: str) -> list[tuple[str, str]]:
        """(internal, external) IP address of each node, in the order of node ranks."""
        record = self._record(cluster)
        handle = None if record is None else record["handle"]
        if handle is None:
            return []
        return list(zip(handle.internal_ips(), handle.external_ips(), strict=True))

    def _record(self, cluster: str) -> Any:
        sky = self._sky
        refresh = sky.StatusRefreshMode.AUTO
        records = sky.get(sky.status(cluster_names=[cluster], refresh=refresh))
        return records[0] if records else None

    def has_ended(self, cluster: str, number: int | None) -> bool:
        """Whether a run of a task is over, or unknown."""
        sky = self._sky
        found = sky.get(sky.job_status(cluster, [number] if number is not None else None))
        status = next(iter(found.values()), None)
        return status is None or status.is_terminal()

    def logs(self, cluster: str, number: int | None) -> str:
        """What a run of a task has written on all nodes so far."""
        stream = io.StringIO()
        self._sky.tail_logs(cluster, number, follow=False, output_stream=stream)
        return stream.getvalue()

    def down(self, cluster: str) -> None:
        """Delete a cluster; one that is gone counts as deleted.

        Raises:
            RuntimeError: SkyPilot could not do so.
        """
        sky = self._sky
        try:
            sky.get(sky.down(cluster))
        except sky.exceptions.ClusterDoesNotExist:
            return
        except Exception as error:  # SkyPilot raises many kinds
            raise RuntimeError(
                f"cluster {cluster!r} could not be deleted, and may still cost money: "
                f"{type(error).__name__}: {error}. Try: sky down {cluster}"
            ) from error
