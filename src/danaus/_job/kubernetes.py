"""Jobs on Kubernetes: a worker in each pod, provisioned here or by somebody else."""

from __future__ import annotations

import importlib
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

from danaus import _config
from danaus._job.kubernetes_manifests import (
    INDEX,
    LABEL,
    MESH,
    WORKER,
    ImageSpec,
    MeshSpec,
    check_name,
    provision,
    rank_of,
)
from danaus._job.kubernetes_pods import address_of, hopeless, is_ready, waits_for
from danaus._job.remote import RemoteJob
from danaus._mesh.workers import attach
from danaus._net.address import tcp_address
from danaus._net.job_key import JobKey
from danaus.errors import MissingExtra

if TYPE_CHECKING:
    import os

    from danaus._job.state import JobState

__all__ = ["ImageSpec", "KubeConfig", "KubernetesJob"]

_NOT_FOUND, _CONFLICT = 404, 409

_PAUSE = 0.5
"""Seconds between two looks at the pods."""

_FORWARD_PATIENCE = 30.0
"""Seconds for kubectl to forward a port."""


def _library() -> Any:
    """The official client.

    Raises:
        MissingExtra: It is not installed.
    """
    try:
        return importlib.import_module("kubernetes")
    except ImportError as error:
        raise MissingExtra("kubernetes", "kubernetes") from error


class KubeConfig:
    """Which cluster, and as whom.

    That of a kubeconfig file, or of a configuration of the official client; with neither, that of
    the pod that this runs in, by its service account.

    Args:
        path: Of a kubeconfig file.
        configuration: ``kubernetes.client.Configuration``.
    """

    def __init__(self, path: str | None = None, configuration: Any = None) -> None:
        self.path = path
        self.configuration = configuration

    @classmethod
    def from_path(cls, path: str | os.PathLike[str]) -> KubeConfig:
        """The cluster of a kubeconfig file; this client is outside of it."""
        import os

        return cls(os.path.expanduser(os.fspath(path)))

    @classmethod
    def from_config(cls, configuration: Any) -> KubeConfig:
        """The cluster of a configuration of the official client; this client is outside of it."""
        return cls(None, configuration)

    @property
    def out_of_cluster(self) -> bool:
        """Whether this client is no pod of the cluster, and reaches pods by a forwarded port."""
        return self.path is not None or self.configuration is not None

    def load(self) -> Any:
        """A client of the cluster.

        Raises:
            MissingExtra: The official client is not installed.
            RuntimeError: There is no cluster here, or its file cannot be read.
        """
        library = _library()
        if self.configuration is not None:
            return library.client.ApiClient(self.configuration)
        configuration = library.client.Configuration()
        try:
            if self.path is not None:
                library.config.load_kube_config(self.path, client_configuration=configuration)
            else:
                library.config.load_incluster_config(client_configuration=configuration)
        except (library.config.ConfigException, OSError) as error:
            raise RuntimeError(
                f"no Kubernetes cluster is known: {error}. Outside of a cluster, pass "
                "kubeconfig=KubeConfig.from_path('~/.kube/config')"
            ) from error
        return library.client.ApiClient(configuration)


class KubernetesJob(RemoteJob):
    """Hosts that are pods.

    Args:
        namespace: Where they are.
        timeout: Seconds that pods may take to be ready; None for any time.
        kubeconfig: The cluster; by default the one that this pod is in.
        attach_to: Address through which all hosts are reached, for a tunnel of one's own; empty
            where pods are reached directly. By default a client outside of the cluster reaches
            them through a port that kubectl forwards to the first one.
        key: The job key of pods that somebody else provisions; by default DANAUS_JOB_KEY.

    Example:
        >>> job = KubernetesJob("research", kubeconfig=KubeConfig.from_path("~/.kube/config"))
        >>> job.add_mesh("trainers", 4, image_spec=ImageSpec("me/train:1", {"nvidia.com/gpu": 8}))
        >>> trainers = job.state().trainers
    """

    def __init__(
        self,
        namespace: str,
        timeout: float | None = None,
        kubeconfig: KubeConfig | None = None,
        attach_to: str | None = None,
        *,
        key: JobKey | str | None = None,
    ) -> None:
        super().__init__()
        self.namespace = namespace
        self.timeout = timeout
        self.kubeconfig = kubeconfig or KubeConfig()
        self.attach_to = attach_to
        self._given_key = key
        self._meshes: dict[str, MeshSpec] = {}
        self._name = ""
        self._first_pod = ""
        self._forward: subprocess.Popen[str] | None = None
        self._gateway = ""

    def add_mesh(  # noqa: PLR0913, PLR0917  # compatible
        self,
        name: str,
        num_replicas: int,
        label_selector: str | None = None,
        pod_rank_label: str = INDEX,
        image_spec: ImageSpec | None = None,
        port: int = 26600,
        pod_template: Any = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Have a mesh of so many pods: provisioned, with an image or a template; else attached to.

        Args:
            name: Of the mesh.
            num_replicas: Number of pods.
            label_selector: Which pods to attach to; by default workers with the mesh's name.
            pod_rank_label: Label that says a pod's rank, of pods that are attached to.
            image_spec: Image of pods that are provisioned.
            port: Of the workers.
            pod_template: A ``V1PodTemplateSpec``, or the same as plain data, instead of an image.
            labels: Further labels of what is provisioned.
            annotations: Likewise.

        Raises:
            ValueError: The name cannot be one, or arguments exclude each other.
        """
        check_name(name)
        if name in self._meshes:
            raise ValueError(f"there is a host mesh {name!r} already")
        if num_replicas < 1:
            raise ValueError(f"host mesh {name!r} needs at least 1 pod, got {num_replicas}")
        if image_spec is not None and pod_template is not None:
            raise ValueError("image_spec and pod_template exclude each other")
        provisioned = image_spec is not None or pod_template is not None
        if provisioned and (label_selector is not None or pod_rank_label != INDEX):
            raise ValueError(
                "label_selector and pod_rank_label are for pods that somebody else provisions"
            )
        self._meshes[name] = MeshSpec(
            num_replicas,
            label_selector or f"{LABEL}={WORKER},{MESH}={name}",
            pod_rank_label,
            image_spec,
            _plain(pod_template),
            port,
            dict(labels or {}),
            dict(annotations or {}),
        )

    def _wish(self) -> dict[str, Any]:
        meshes = {name: asdict(spec) for name, spec in self._meshes.items()}
        return {"namespace": self.namespace, "meshes": meshes}

    def _record(self) -> dict[str, Any]:
        reached = {"kubeconfig": self.kubeconfig.path, "attach_to": self.attach_to}
        return {**super()._record(), "name": self._name, "first_pod": self._first_pod, **reached}

    def _restore(self, fields: Mapping[str, Any]) -> None:
        wish = fields["wish"]
        config = KubeConfig(fields["kubeconfig"])
        KubernetesJob.__init__(
            self, str(wish["namespace"]), kubeconfig=config, attach_to=fields["attach_to"]
        )
        for name, spec in wish["meshes"].items():
            given: dict[str, Any] = dict(spec)
            image = given.pop("image")
            made = ImageSpec(**image) if image else None
            self._meshes[str(name)] = MeshSpec(**given, image=made)
        self._name = str(fields["name"])
        self._first_pod = str(fields["first_pod"])
        super()._restore(fields)

    # the life of a job

    def _make_key(self) -> JobKey:
        if self._provisions():
            return super()._make_key()
        key = JobKey.of(self._given_key)
        if key is None:
            raise RuntimeError(
                "pods that somebody else provisions are reached with their job key: pass key=, "
                "or set DANAUS_JOB_KEY to its path"
            )
        return key

    def _provisions(self) -> bool:
        return any(spec.is_provisioned for spec in self._meshes.values())

    def _launch(self, key: JobKey) -> dict[str, list[str]]:
        if not self._meshes:
            raise RuntimeError("a KubernetesJob needs pods: call add_mesh(name, num_replicas)")
        api = self.kubeconfig.load()
        self._name = f"danaus-{(self.apply_id or 'job')[:8]}"
        core, apps = _apis(api)
        for mesh, spec in self._meshes.items():
            if spec.is_provisioned:
                self._provision(core, apps, provision(self._name, mesh, spec, key.pem))
        workers = {mesh: self._wait_for_pods(core, mesh) for mesh in self._meshes}
        if not self.attach_to and (not self.kubeconfig.out_of_cluster or self.attach_to == ""):
            _wait_listening([at for group in workers.values() for at in group])
        return workers

    def _provision(self, core: Any, apps: Any, objects: Mapping[str, Any]) -> None:
        error_type = _library().client.ApiException
        try:
            core.create_namespaced_secret(self.namespace, objects["secret"])
            core.create_namespaced_service(self.namespace, objects["service"])
            apps.create_namespaced_stateful_set(self.namespace, objects["stateful_set"])
        except error_type as error:
            name = objects["secret"]["metadata"]["name"]
            raise RuntimeError(
                f"Kubernetes refuses to make {name} in namespace {self.namespace!r}: "
                f"{error.status} {error.reason}: {_message(error)}"
            ) from error

    def _wait_for_pods(self, core: Any, mesh: str) -> list[str]:
        """Wait until the pods of a mesh are ready; their addresses in order of rank."""
        spec = self._meshes[mesh]
        selector = spec.selector
        if spec.is_provisioned:
            selector = f"danaus.dev/job={self._name},{MESH}={mesh}"
        begin = time.monotonic()
        while True:
            pods = self._list(core, selector)
            ready: dict[int, Any] = {}
            for pod in pods:
                rank = rank_of(pod.metadata.name, pod.metadata.labels or {}, spec.rank_label)
                if rank is not None and rank < spec.replicas and is_ready(pod):
                    ready[rank] = pod
            if len(ready) == spec.replicas:
                self._first_pod = self._first_pod or ready[0].metadata.name
                return [address_of(ready[rank], spec.port) for rank in range(spec.replicas)]
            for pod in pods:
                why = hopeless(pod)
                if why:
                    raise RuntimeError(
                        f"pod {pod.metadata.name} of mesh {mesh!r} cannot start: {why}"
                        f"{self._log_tail(core, pod.metadata.name)}"
                    )
            if self.timeout is not None and time.monotonic() - begin > self.timeout:
                raise RuntimeError(self._late(mesh, spec, selector, pods, ready))
            time.sleep(_PAUSE)

    def _late(
        self, mesh: str, spec: MeshSpec, selector: str, pods: list[Any], ready: Mapping[int, Any]
    ) -> str:
        missing = [rank for rank in range(spec.replicas) if rank not in ready]
        reasons = dict.fromkeys(why for pod in pods if (why := waits_for(pod)))
        said = f": {'; '.join(reasons)}" if reasons else ""
        return (
            f"{len(missing)} of {spec.replicas} pods of mesh {mesh!r} are not ready after "
            f"{self.timeout:g} s (ranks {', '.join(map(str, missing[:8]))}; selector "
            f"{selector!r} finds {len(pods)}){said}"
        )

    def _list(self, core: Any, selector: str) -> list[Any]:
        error_type = _library().client.ApiException
        try:
            return core.list_namespaced_pod(self.namespace, label_selector=selector).items
        except error_type as error:
            raise RuntimeError(
                f"the pods of namespace {self.namespace!r} cannot be listed: {error.status} "
                f"{error.reason}: {_message(error)}"
            ) from error

    def _log_tail(self, core: Any, pod: str) -> str:
        # A pod without a log, or a cluster that gives none: the reason stands without it.
        with suppress(_library().client.ApiException):
            text = core.read_namespaced_pod_log(pod, self.namespace, tail_lines=20)
            return f":\n{text}" if text else ""
        return ""

    def _state(self) -> JobState:
        self._open_gateway()
        return super()._state()

    def _lost(self) -> str | None:
        self._open_gateway()
        return super()._lost()

    def _open_gateway(self) -> None:
        """Reach the pods: directly from within the cluster, else through the first one."""
        if self._gateway:
            return
        address = self.attach_to
        if address is None and self.kubeconfig.out_of_cluster:
            port = next(iter(self._meshes.values())).port
            address = self._forward_port(port)
        if address:
            attach(address, key=self._key)
            self._gateway = address

    def _forward_port(self, port: int) -> str:
        kubectl = shutil.which("kubectl")
        if kubectl is None:
            raise RuntimeError(
                "this client is outside of the cluster and there is no kubectl on PATH to forward "
                "a port; install it, or forward one yourself and pass attach_to"
            )
        command = [kubectl, "--namespace", self.namespace]
        if self.kubeconfig.path is not None:
            command += ["--kubeconfig", self.kubeconfig.path]
        command += ["port-forward", f"pod/{self._first_pod}", f":{port}"]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._forward = process
        assert process.stdout is not None
        words: list[str] = []
        timer = _ends_after(process, _FORWARD_PATIENCE)
        try:
            for line in process.stdout:
                words.append(line)
                found = re.search(r"Forwarding from 127\.0\.0\.1:(\d+)", line)
                if found is not None:
                    return tcp_address("127.0.0.1", int(found[1]))
        finally:
            timer.cancel()
        raise RuntimeError(f"kubectl could not forward a port: {''.join(words).strip()[-500:]}")

    def logs(self) -> dict[str, str]:
        """What the workers of the running job have written themselves, by pod."""
        core, _ = _apis(self.kubeconfig.load())
        pods: list[Any] = []
        for spec in self._meshes.values():
            selector = f"danaus.dev/job={self._name}" if spec.is_provisioned else spec.selector
            pods += self._list(core, selector)
        names = dict.fromkeys(pod.metadata.name for pod in pods)
        return {name: core.read_namespaced_pod_log(name, self.namespace) for name in names}

    def _kill(self) -> None:
        if self._workers and not self._provisions():
            # Before anything else: they are not to be told to end, either.
            raise NotImplementedError(
                "these pods are somebody else's: end them where they were provisioned"
            )
        super()._kill()

    def _end(self) -> None:
        if self._forward is not None:
            self._forward.kill()
            self._forward.wait()
            if self._forward.stdout is not None:
                self._forward.stdout.close()
            self._forward = None
        if not self._name or not self._provisions():
            return
        core, apps = _apis(self.kubeconfig.load())
        for mesh, spec in self._meshes.items():
            if spec.is_provisioned:
                name = f"{self._name}-{mesh}"
                for delete in (
                    apps.delete_namespaced_stateful_set,
                    core.delete_namespaced_service,
                    core.delete_namespaced_secret,
                ):
                    _delete(delete, name, self.namespace)


def _apis(api: Any) -> tuple[Any, Any]:
    client = _library().client
    return client.CoreV1Api(api), client.AppsV1Api(api)


def _delete(delete: Any, name: str, namespace: str) -> None:
    error_type = _library().client.ApiException
    try:
        # Servers differ in what they answer, and nothing of it is wanted.
        delete(name, namespace, _preload_content=False)
    except error_type as error:
        if error.status != _NOT_FOUND:
            raise RuntimeError(
                f"{name} could not be deleted: {error.status} {error.reason}"
            ) from error


def _message(error: Any) -> str:
    import json

    with suppress(ValueError, TypeError, KeyError):
        return str(json.loads(error.body)["message"])
    return str(error.body or "")[:500]


def _plain(template: Any) -> Mapping[str, Any] | None:
    """A template of the official client as plain data."""
    if template is None:
        return None
    if isinstance(template, Mapping):
        return cast("Mapping[str, Any]", template)
    return _library().client.ApiClient().sanitize_for_serialization(template)


def _wait_listening(addresses: list[str]) -> None:
    """Wait until workers listen whose pods are ready for some other reason."""
    deadline = time.monotonic() + _config.get("host_spawn_ready_timeout")
    from danaus._net.address import parse_tcp

    for address in addresses:
        while time.monotonic() < deadline:
            with suppress(OSError), socket.create_connection(parse_tcp(address), 2.0):
                break
            time.sleep(0.1)


def _ends_after(process: subprocess.Popen[str], seconds: float) -> Any:
    import threading

    timer = threading.Timer(seconds, process.kill)
    timer.daemon = True
    timer.start()
    return timer
