"""Builders that state only what matters to a test, and a cluster to try them on."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tgp.api.resource import POD
from tgp.sim.apiserver.local_api import LocalApi
from tgp.sim.cluster.machines import Hardware
from tgp.sim.world import World

GPU = "nvidia.com/gpu"


def a_container(**resources: Any) -> dict[str, Any]:
    return {"name": "main", "image": "train:1", "resources": {"limits": {k: str(v) for k, v in resources.items()}}}


def a_template(labels: dict[str, str] | None = None, *, run_for: str = "", code: int = 0, gpus: int = 0, **spec: Any):
    annotations = {"sim.tgp.io/run-for": run_for, "sim.tgp.io/exit-code": str(code)} if run_for else {}
    resources = {"cpu": "1", **({GPU: gpus} if gpus else {})}
    return {
        "metadata": {"labels": labels or {"app": "x"}, "annotations": annotations},
        "spec": {"containers": [a_container(**resources)], **spec},
    }


def a_pod(name: str = "pod", namespace: str = "default", **template: Any) -> dict[str, Any]:
    made = a_template(**template)
    return {"metadata": {**made["metadata"], "name": name, "namespace": namespace}, "spec": made["spec"]}


def a_job(name: str = "job", *, template: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    made = template or a_template(run_for="10m", restartPolicy="Never")
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {**spec, "template": made}}


def a_set(name: str = "web", *, template: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A Deployment, DaemonSet or ReplicaSet."""
    made = template or a_template()
    selector = {"matchLabels": dict(made["metadata"]["labels"])}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": selector, "template": made, **spec},
    }


class Cluster:
    def __init__(self, world: World) -> None:
        self.world = world
        self.plane = world.cluster
        self.api: LocalApi = world.api.local_api

    def machines(self, *machines: Hardware) -> None:
        for machine in machines:
            self.plane.power_on(machine)
        self.world.run(minutes=1)

    def pods(self, phase: str = "") -> list[dict[str, Any]]:
        return [pod for pod in self.api.objects(POD) if not phase or pod["status"].get("phase") == phase]

    def pod(self, name: str = "pod") -> dict[str, Any]:
        found = self.api.get(POD, "default", name)
        assert found is not None, f"there is no pod {name}"
        return found


@contextmanager
def a_cluster(*machines: Hardware, seed: int | str = "cluster") -> Iterator[Cluster]:
    with World(seed) as world:
        cluster = Cluster(world)
        cluster.machines(*machines)
        yield cluster


def condition(obj: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(row for row in obj["status"]["conditions"] if row["type"] == kind)
