"""KubernetesJob on a real control plane; `make test-kubernetes` runs this."""

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from danaus.job import ImageSpec, KubeConfig, KubernetesJob
from danaus.testing import wait_until
from examples.anywhere import count_words
from tests.cluster.control_plane import control_plane
from tests.cluster.python import interpreter
from tests.integration.remote_actors import call_all

client: Any = pytest.importorskip("kubernetes").client

PATIENCE = 40.0

pytestmark = [
    pytest.mark.timeout(180),
    # The control plane of a test has a certificate of its own.
    pytest.mark.filterwarnings("ignore:Unverified HTTPS request"),
]

Make = Callable[..., KubernetesJob]


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    with control_plane(tmp_path_factory.mktemp("cluster")) as path:
        yield path


@pytest.fixture
def core(kubeconfig: Path) -> Generator[Any]:
    api = KubeConfig.from_path(kubeconfig).load()
    yield client.CoreV1Api(api)
    api.rest_client.pool_manager.clear()  # it keeps connections for the next question


@pytest.fixture
def make(kubeconfig: Path, tmp_path: Path, core: Any) -> Generator[Make]:
    python = str(interpreter(tmp_path))
    made: list[KubernetesJob] = []

    def make_job(*, python: str = python, timeout: float = PATIENCE) -> KubernetesJob:
        job = KubernetesJob("default", timeout, KubeConfig.from_path(kubeconfig), attach_to="")
        job.add_mesh("trainers", 2, image_spec=ImageSpec("danaus:test", python=python))
        job.add_mesh("loaders", 1, image_spec=ImageSpec("danaus:test", python=python))
        made.append(job)
        return job

    yield make_job
    for job in made:
        job.kill()
    wait_until(
        lambda: not core.list_namespaced_pod("default").items, timeout=PATIENCE, what="no pods"
    )


def test_pods_are_provisioned_used_and_deleted(make: Make, core: Any):
    job = make()

    assert call_all(job) == [5] * 4 + [6]

    job.kill()
    assert not core.list_namespaced_secret("default", label_selector="danaus.dev/job").items
    assert not core.list_namespaced_service("default", label_selector="danaus.dev/job").items


def test_the_example_runs_on_kubernetes(
    make: Make, kubeconfig: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    job = KubernetesJob("default", PATIENCE, KubeConfig.from_path(kubeconfig), attach_to="")
    job.add_mesh("readers", 2, image_spec=ImageSpec("i", python=str(interpreter(tmp_path))))

    count_words(job)

    assert "2 hosts, 4 readers: [('the', 200)" in capsys.readouterr().out


def test_a_job_in_a_state_file_is_found_again(make: Make, tmp_path: Path, core: Any):
    path = tmp_path / "state.json"
    assert call_all(make(), path) == [5] * 4 + [6]
    pods = {pod.metadata.uid for pod in core.list_namespaced_pod("default").items}

    again = make()
    assert call_all(again, path) == [5] * 4 + [6]

    assert {pod.metadata.uid for pod in core.list_namespaced_pod("default").items} == pods


def test_pods_of_somebody_else_are_attached_to(
    make: Make, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
):
    theirs = make()
    theirs.state(cached_path=None)
    key = theirs._key
    assert key is not None
    monkeypatch.setenv("DANAUS_JOB_KEY", key.pem)

    ours = KubernetesJob("default", PATIENCE, KubeConfig.from_path(kubeconfig), attach_to="")
    ours.add_mesh("trainers", 2, "danaus.dev/mesh-name=trainers")
    ours.add_mesh("loaders", 1)

    assert call_all(ours) == [5] * 4 + [6]
    with pytest.raises(NotImplementedError, match="somebody else"):
        ours.kill()


def test_a_container_that_ends_at_once_is_told(make: Make):
    with pytest.raises(RuntimeError, match=r"pod danaus-.* cannot start: it has ended"):
        make(python="/bin/false").apply()


def test_pods_that_never_are_ready_are_told_with_their_ranks(make: Make, tmp_path: Path):
    idle = tmp_path / "idle"
    idle.write_text("#!/bin/sh\nexec sleep 1000\n")
    idle.chmod(0o755)

    with pytest.raises(RuntimeError, match=r"2 of 2 pods of mesh 'trainers' are not ready"):
        make(python=str(idle), timeout=3.0).apply()
