"""A kubelet that runs the containers of pods as processes of this machine, for tests.

It is the only node of its cluster: it takes every pod that waits, runs the command of its first
container, and tells the API what becomes of it. Each pod has an address of its own on the loopback,
so that the pods of one machine can listen at the same port.
"""

import contextlib
import importlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

library: Any = importlib.import_module("kubernetes")
client, config = library.client, library.config

NODE = "node"
PAUSE = 0.1


class Pods:
    """The pods of the node."""

    def __init__(self, core: Any) -> None:
        self.core = core
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.addresses: dict[str, str] = {}
        self.last = 1
        self.folder = tempfile.mkdtemp(prefix="kubelet-")

    def turn(self) -> None:
        """Look at all pods once."""
        seen: set[str] = set()
        for pod in self.core.list_pod_for_all_namespaces().items:
            uid = pod.metadata.uid
            seen.add(uid)
            if pod.metadata.deletion_timestamp:
                self.end(uid)
                with contextlib.suppress(client.ApiException):
                    self.core.delete_namespaced_pod(
                        pod.metadata.name, pod.metadata.namespace, grace_period_seconds=0
                    )
            elif not pod.spec.node_name:
                self.bind(pod)
            elif uid not in self.running and pod.status.phase == "Pending":
                self.start(pod)
            elif uid in self.running:
                self.report(pod)
        for uid in [uid for uid in self.running if uid not in seen]:
            self.end(uid)

    def bind(self, pod: Any) -> None:
        target = client.V1ObjectReference(kind="Node", api_version="v1", name=NODE)
        body = client.V1Binding(metadata=client.V1ObjectMeta(name=pod.metadata.name), target=target)
        with contextlib.suppress(client.ApiException):
            self.core.create_namespaced_binding(
                pod.metadata.namespace, body, _preload_content=False
            )

    def start(self, pod: Any) -> None:
        uid = pod.metadata.uid
        self.last += 1
        address = self.addresses[uid] = f"127.0.1.{self.last}"
        container = pod.spec.containers[0]
        environment = dict(os.environ)
        for variable in container.env or []:
            environment[variable.name] = self.value(pod, variable, address)
        words = [
            re.sub(r"\$\((\w+)\)", lambda found: environment.get(found[1], ""), word)
            for word in [*(container.command or []), *(container.args or [])]
        ]
        with Path(self.folder, f"{pod.metadata.name}.log").open("wb") as log:
            try:
                self.running[uid] = subprocess.Popen(
                    words,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            except OSError as error:
                self.status(pod, "Failed", message=f"the container cannot run: {error}")
                return
        self.report(pod)

    def value(self, pod: Any, variable: Any, address: str) -> str:
        source = variable.value_from
        if source is None:
            return variable.value or ""
        if source.secret_key_ref is not None:
            import base64

            secret = self.core.read_namespaced_secret(
                source.secret_key_ref.name, pod.metadata.namespace
            )
            return base64.b64decode(secret.data[source.secret_key_ref.key]).decode()
        path = source.field_ref.field_path
        return {"status.podIP": address, "metadata.name": pod.metadata.name}[path]

    def report(self, pod: Any) -> None:
        process = self.running[pod.metadata.uid]
        code = process.poll()
        if code is None:
            self.status(pod, "Running", ready=self.is_ready(pod))
        elif pod.status.phase not in ("Failed", "Succeeded"):
            self.status(pod, "Succeeded" if code == 0 else "Failed", message=f"exit code {code}")

    def is_ready(self, pod: Any) -> bool:
        probe = pod.spec.containers[0].readiness_probe
        if probe is None or probe.tcp_socket is None:
            return True
        place = (self.addresses[pod.metadata.uid], int(probe.tcp_socket.port))
        try:
            socket.create_connection(place, 0.2).close()
        except OSError:
            return False
        return True

    def status(self, pod: Any, phase: str, *, ready: bool = False, message: str = "") -> None:
        known = any(
            c.type == "Ready" and (c.status == "True") == ready for c in pod.status.conditions or []
        )
        if pod.status.phase == phase and known:
            return
        condition = {"type": "Ready", "status": str(ready)}
        status: dict[str, Any] = {"phase": phase, "conditions": [condition], "message": message}
        if pod.metadata.uid in self.addresses:
            status["podIP"] = self.addresses[pod.metadata.uid]
        with contextlib.suppress(client.ApiException):
            self.core.patch_namespaced_pod_status(
                pod.metadata.name, pod.metadata.namespace, {"status": status}
            )

    def end(self, uid: str) -> None:
        process = self.running.pop(uid, None)
        if process is not None and process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def main(kubeconfig: str) -> None:
    """Serve until SIGTERM."""
    config.load_kube_config(kubeconfig)
    core = client.CoreV1Api()
    with contextlib.suppress(client.ApiException):
        core.create_node({"metadata": {"name": NODE}})
    pods = Pods(core)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        while True:
            with contextlib.suppress(client.ApiException):
                pods.turn()
            time.sleep(PAUSE)  # noqa: TID251  # this is no test, but a daemon
    finally:
        for uid in list(pods.running):
            pods.end(uid)


if __name__ == "__main__":
    main(sys.argv[1])
