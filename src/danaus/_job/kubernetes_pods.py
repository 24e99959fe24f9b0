"""What the cluster says of a pod: is it ready, what does it wait for, where is it?

Pods are objects of the official client, which this does not import.
"""

from __future__ import annotations

from typing import Any

from danaus._net.address import tcp_address

__all__ = ["address_of", "hopeless", "is_ready", "waits_for"]

_HOPELESS = {
    "CreateContainerConfigError",
    "CrashLoopBackOff",
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "RunContainerError",
}
"""Why a container waits that will not start by itself."""


def _items(value: Any) -> list[Any]:
    """A list of the official client's, which has None for an empty one."""
    return list(value or ())


def is_ready(pod: Any) -> bool:
    """Whether a pod runs, and is ready to be used."""
    status = pod.status
    if pod.metadata.deletion_timestamp or status.phase != "Running" or not status.pod_ip:
        return False
    return any(c.type == "Ready" and c.status == "True" for c in _items(status.conditions))


def hopeless(pod: Any) -> str:
    """Why a pod will not become ready by itself; empty if it may."""
    status = pod.status
    if status.phase in ("Failed", "Succeeded"):
        return f"it has ended ({status.phase}) {status.message or ''}".strip()
    for container in _items(status.container_statuses):
        waiting = container.state.waiting if container.state else None
        if waiting is not None and waiting.reason in _HOPELESS:
            return f"{waiting.reason} {waiting.message or ''}".strip()
    return ""


def waits_for(pod: Any) -> str:
    """What a pod waits for, as the cluster says."""
    for condition in _items(pod.status.conditions):
        if condition.status == "False" and condition.message:
            return f"{condition.reason or condition.type}: {condition.message}"
    return f"phase {pod.status.phase}"


def address_of(pod: Any, port: int) -> str:
    """The address of a pod's worker; ``port`` unless its container says another one."""
    for container in pod.spec.containers:
        for variable in _items(container.env):
            if variable.name == "DANAUS_PORT" and (variable.value or "").isdigit():
                port = int(variable.value)
    return tcp_address(pod.status.pod_ip, port)
