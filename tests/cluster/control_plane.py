"""A real Kubernetes control plane, from tools/kubernetes/build, with one node of processes."""

import os
import shutil
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from danaus.testing import wait_until

PATIENCE = 60.0


def binaries() -> Path:
    """Where the control plane was built."""
    default = Path.home() / ".cache" / "danaus-kubernetes"
    return Path(os.environ.get("DANAUS_KUBERNETES", default)) / "bin"


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


@contextmanager
def control_plane(folder: Path) -> Generator[Path]:
    """Run it; gives the path of a kubeconfig."""
    etcd, peers, port = (_free_port() for _ in range(3))
    (folder / "tokens.csv").write_text('secret,admin,admin,"system:masters"\n')
    subprocess.run(
        ["openssl", "genrsa", "-out", str(folder / "sa.key"), "2048"],
        check=True,
        capture_output=True,
    )
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        f"clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:{port}', "
        "insecure-skip-tls-verify: true}}]\n"
        "users: [{name: u, user: {token: secret}}]\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\n"
    )
    server = f"http://127.0.0.1:{etcd}"
    program = shutil.which("etcd")
    assert program is not None, "etcd is not installed: tools/kubernetes/build installs it"
    with ExitStack() as stack:

        def run(name: str, *words: str) -> None:
            out = stack.enter_context((folder / f"{name}.log").open("wb"))
            process = subprocess.Popen(words, stdout=out, stderr=out, cwd=folder)
            stack.callback(process.wait, PATIENCE)
            stack.callback(process.terminate)

        run(
            "etcd",
            *(program, "--data-dir", str(folder / "etcd"), "--listen-client-urls", server),
            *("--advertise-client-urls", server),
            *("--listen-peer-urls", f"http://127.0.0.1:{peers}"),
        )
        run(
            "apiserver",
            *(str(binaries() / "kube-apiserver"), f"--etcd-servers={server}"),
            *(f"--secure-port={port}", "--bind-address=127.0.0.1"),
            *("--advertise-address=127.0.0.1", "--cert-dir=certs"),
            *("--service-account-issuer=https://localhost", "--service-account-key-file=sa.key"),
            *("--service-account-signing-key-file=sa.key", "--authorization-mode=AlwaysAllow"),
            *("--token-auth-file=tokens.csv", "--disable-admission-plugins=ServiceAccount"),
            *("--allow-privileged=true", "--service-cluster-ip-range=10.96.0.0/16"),
            "--endpoint-reconciler-type=none",
        )
        wait_until(lambda: _answers(port), timeout=PATIENCE, what="the API server")
        run(
            "controllers",
            *(str(binaries() / "kube-controller-manager"), f"--kubeconfig={kubeconfig}"),
            *("--service-account-private-key-file=sa.key", "--leader-elect=false"),
            *("--secure-port=0", "--port=0"),
            "--controllers=*,-nodelifecycle,-nodeipam,-route,-service,-cloud-node-lifecycle,"
            "-attachdetach,-ttl",
        )
        run("kubelet", sys.executable, str(Path(__file__).with_name("kubelet.py")), str(kubeconfig))
        yield kubeconfig


def _answers(port: int) -> bool:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    request = urllib.request.Request(
        f"https://127.0.0.1:{port}/readyz", headers={"Authorization": "Bearer secret"}
    )
    try:
        with urllib.request.urlopen(request, timeout=2, context=context) as answer:
            return answer.status == 200
    except OSError:
        return False
