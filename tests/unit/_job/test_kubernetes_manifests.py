"""What Kubernetes is asked for."""

import json
import subprocess
import sys

import pytest

from danaus._job.kubernetes_manifests import (
    INDEX,
    ImageSpec,
    MeshSpec,
    check_name,
    provision,
    rank_of,
)
from danaus.job import KubernetesJob

SPEC = MeshSpec(
    4,
    "",
    image=ImageSpec("me/train:1", {"nvidia.com/gpu": 8}, "/opt/bin/python"),
    labels={"team": "a"},
    annotations={"note": "b"},
)


def test_a_mesh_is_a_secret_a_headless_service_and_a_stateful_set():
    made = provision("danaus-1", "trainers", SPEC, "the key")

    assert {one["metadata"]["name"] for one in made.values()} == {"danaus-1-trainers"}
    assert made["secret"]["stringData"] == {"key": "the key"}
    assert made["service"]["spec"]["clusterIP"] == "None"
    assert made["stateful_set"]["spec"]["replicas"] == 4
    assert made["stateful_set"]["spec"]["podManagementPolicy"] == "Parallel"
    json.dumps(made)


def test_labels_and_annotations_are_on_all_of_it():
    made = provision("danaus-1", "trainers", SPEC, "the key")

    template = made["stateful_set"]["spec"]["template"]
    for one in (*made.values(), template):
        assert one["metadata"]["labels"]["team"] == "a"
        assert one["metadata"]["labels"]["danaus.dev/mesh-name"] == "trainers"
        assert one["metadata"]["annotations"] == {"note": "b"}
    selector = made["stateful_set"]["spec"]["selector"]["matchLabels"]
    assert selector.items() <= template["metadata"]["labels"].items()


def test_the_worker_has_its_command_resources_and_key():
    made = provision("danaus-1", "trainers", SPEC, "the key")

    (container,) = made["stateful_set"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "me/train:1"
    assert container["command"][:4] == ["/opt/bin/python", "-m", "danaus_cli", "worker"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "8"}
    key = next(v for v in container["env"] if v["name"] == "DANAUS_JOB_KEY")
    assert key["valueFrom"]["secretKeyRef"] == {"name": "danaus-1-trainers", "key": "key"}
    assert "the key" not in json.dumps(made["stateful_set"])


def test_a_template_of_the_user_keeps_what_it_says():
    template = {
        "metadata": {"labels": {"mine": "1"}},
        "spec": {
            "hostNetwork": True,
            "containers": [
                {"name": "x", "image": "i", "command": ["serve"], "env": [{"name": "A"}]},
                {"name": "sidecar", "image": "s"},
            ],
        },
    }
    made = provision("danaus-1", "m", MeshSpec(1, "", template=template), "k")

    pod = made["stateful_set"]["spec"]["template"]
    assert pod["spec"]["hostNetwork"] is True
    assert pod["metadata"]["labels"]["mine"] == "1"
    first, second = pod["spec"]["containers"]
    assert first["command"] == ["serve"]
    assert first["env"][0] == {"name": "A"}
    assert second == {"name": "sidecar", "image": "s"}
    assert len(template["spec"]["containers"][0]["env"]) == 1


@pytest.mark.parametrize(
    ("name", "labels", "label", "rank"),
    [
        ("job-trainers-3", {INDEX: "5"}, INDEX, 5),
        ("job-trainers-3", {}, INDEX, 3),
        ("other", {}, INDEX, None),
        ("job-3", {}, "mine", None),
        ("job-3", {"mine": "7"}, "mine", 7),
        ("job-3", {"mine": "x"}, "mine", None),
    ],
)
def test_a_pod_has_the_rank_of_its_label_or_name(
    name: str, labels: dict[str, str], label: str, rank: int | None
):
    assert rank_of(name, labels, label) == rank


@pytest.mark.parametrize("name", ["", "Trainers", "1st", "a_b", "a-", "x" * 41, 3])
def test_names_that_the_cluster_does_not_take_are_refused(name: object):
    with pytest.raises(ValueError, match="cannot be the name"):
        check_name(name)


def test_an_image_and_a_template_exclude_each_other():
    job = KubernetesJob("default")

    with pytest.raises(ValueError, match="exclude each other"):
        job.add_mesh("m", 1, image_spec=ImageSpec("i"), pod_template={})
    with pytest.raises(ValueError, match="somebody else"):
        job.add_mesh("m", 1, "a=b", image_spec=ImageSpec("i"))


def test_jobs_are_imported_without_the_client_of_the_cluster():
    """J4."""
    program = (
        "import sys; sys.modules['kubernetes'] = None; from danaus.job import KubernetesJob\n"
        "from danaus.errors import MissingExtra\n"
        "job = KubernetesJob('default'); job.add_mesh('m', 1)\n"
        "try: job._launch(None)\n"
        "except MissingExtra as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert "danaus[kubernetes]" in done.stdout, done.stderr
