"""What Kubernetes is asked for, as plain data: pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["ImageSpec", "MeshSpec", "check_name", "provision", "rank_of"]

_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")

LABEL = "app.kubernetes.io/name"
WORKER = "danaus-worker"
MESH = "danaus.dev/mesh-name"
JOB = "danaus.dev/job"

INDEX = "apps.kubernetes.io/pod-index"
"""Label of a StatefulSet's pods since Kubernetes 1.28; before, the name of a pod ends in it."""


@dataclass(frozen=True, slots=True)
class ImageSpec:
    """A container image that has Danaus, and what a worker's container needs.

    Attributes:
        image: Name of the image.
        resources: Such as ``{"nvidia.com/gpu": 8, "memory": "64Gi"}``: requests and limits.
        python: Its interpreter.
    """

    image: str
    resources: Mapping[str, Any] | None = None
    python: str = "python"


@dataclass(frozen=True, slots=True)
class MeshSpec:
    """One host mesh of a job.

    Attributes:
        replicas: Number of its pods.
        selector: Which pods they are, where they are somebody else's.
        rank_label: Label with a pod's rank.
        image: What to provision; None where the pods are somebody else's, or ``template`` says it.
        template: A pod template to provision, as plain data.
        port: Of the workers.
        labels: Further labels of what is provisioned.
        annotations: Likewise.
    """

    replicas: int
    selector: str
    rank_label: str = INDEX
    image: ImageSpec | None = None
    template: Mapping[str, Any] | None = None
    port: int = 26600
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def is_provisioned(self) -> bool:
        """Whether the job makes its pods."""
        return self.image is not None or self.template is not None


def check_name(name: object) -> str:
    """The name of a mesh, which becomes part of names in the cluster.

    Raises:
        ValueError: It cannot be one.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > 40:  # noqa: PLR2004  # what is put before it has 20 of 63
        raise ValueError(
            f"{name!r} cannot be the name of a mesh in Kubernetes: at most 40 lower-case letters, "
            "digits and -, the first a letter"
        )
    return name


def rank_of(pod_name: str, labels: Mapping[str, str], rank_label: str) -> int | None:
    """A pod's rank by its label, or by the number that ends its name; None where it has none."""
    text = labels.get(rank_label)
    if text is None and rank_label == INDEX:
        text = pod_name.rpartition("-")[2]
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def provision(job: str, mesh: str, spec: MeshSpec, key: str) -> dict[str, dict[str, Any]]:
    """The objects for a mesh: a Secret with the job key, a headless Service, a StatefulSet.

    Args:
        job: Short name of the run of the job; all names begin with it.
        mesh: Name of the mesh.
        spec: What is asked for.
        key: The job key.
    """
    name = f"{job}-{mesh}"
    labels = {**spec.labels, LABEL: WORKER, MESH: mesh, JOB: job}
    about: dict[str, Any] = {"name": name, "labels": labels}
    if spec.annotations:
        about["annotations"] = dict(spec.annotations)
    return {
        "secret": {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": about,
            "stringData": {"key": key},
        },
        "service": {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": about,
            "spec": {
                "clusterIP": "None",
                "publishNotReadyAddresses": True,
                "selector": {JOB: job, MESH: mesh},
                "ports": [{"name": "danaus", "port": spec.port}],
            },
        },
        "stateful_set": {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": about,
            "spec": {
                "replicas": spec.replicas,
                "serviceName": name,
                "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": {JOB: job, MESH: mesh}},
                "template": _template(spec, labels, name),
            },
        },
    }


def _template(spec: MeshSpec, labels: Mapping[str, str], secret: str) -> dict[str, Any]:
    """The pods' template: the user's, or one of a single container, completed."""
    given = dict(spec.template or {})
    about = dict(given.get("metadata") or {})
    about["labels"] = {**(about.get("labels") or {}), **labels}
    if spec.annotations:
        about["annotations"] = {**(about.get("annotations") or {}), **spec.annotations}
    pod = dict(given.get("spec") or {})
    containers = [dict(one) for one in pod.get("containers") or [_container(spec)]]
    containers[0] = _completed(containers[0], spec, secret)
    pod["containers"] = containers
    return {"metadata": about, "spec": pod}


def _container(spec: MeshSpec) -> dict[str, Any]:
    image = spec.image
    if image is None:
        raise ValueError("a pod template needs a container")
    made: dict[str, Any] = {"name": "worker", "image": image.image}
    if image.resources:
        wanted = {name: str(value) for name, value in image.resources.items()}
        made["resources"] = {"requests": wanted, "limits": wanted}
    return made


def _completed(container: dict[str, Any], spec: MeshSpec, secret: str) -> dict[str, Any]:
    """The worker's container: with its command, unless it has one, the key, and who it is."""
    python = spec.image.python if spec.image is not None else "python"
    if not container.get("command") and not container.get("args"):
        container["command"] = [
            *(python, "-m", "danaus_cli", "worker"),
            *("--address", f"tcp://$(POD_IP):{spec.port}", "--name", "$(POD_NAME)"),
        ]
    container["env"] = [
        *(container.get("env") or []),
        {"name": "DANAUS_PORT", "value": str(spec.port)},
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {
            "name": "DANAUS_JOB_KEY",
            "valueFrom": {"secretKeyRef": {"name": secret, "key": "key"}},
        },
    ]
    ports = list(container.get("ports") or [])
    if not any(port.get("containerPort") == spec.port for port in ports):
        ports.append({"name": "danaus", "containerPort": spec.port})
    container["ports"] = ports
    container.setdefault("readinessProbe", {"tcpSocket": {"port": spec.port}, "periodSeconds": 1})
    return container
