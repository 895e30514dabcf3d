"""What the descriptions of built-in kinds say is what a real API server says about itself."""

import ssl
import urllib.request
from typing import Any

import msgspec
import pytest

from tests.contracts.kubectl.scripts import applying, cluster, data, pods, workloads
from tgp.api.resource import Resource
from tgp.ports.http import Call
from tgp.sim.apiserver import schemas
from tgp.sim.apiserver.builtin_kinds import BUILTIN
from tgp.sim.apiserver.discovery import Discovery
from tgp.sim.apiserver.registry import Registry, Served
from tgp.sim.apiserver.schemas import protobuf
from tgp.sim.apiserver.schemas.canonical import canonical
from tools.controlplane.kubectl import Kubectl
from tools.controlplane.plane import ControlPlane

JSON = "application/json"
NAMESPACE = "kubectl-facts"
PER_KIND = 40  # objects looked at; a new control plane has a few dozen cluster roles
# Words and zero values differ by intent; one real type tells how it is a union, which is not read here.
UNCOMPARED = frozenset({"description", "default", "x-kubernetes-unions", "x-kubernetes-preserve-unknown-fields"})
LISTED = [served for served in BUILTIN if "list" in served.verbs]


MANIFESTS = (
    pods.POD,
    workloads.DEPLOYMENT,
    workloads.SETS,
    data.CONFIG,
    data.SERVICE,
    data.OTHERS,
    cluster.LEASE,
)


class Reader:
    """Plain GETs as the administrator."""

    def __init__(self, plane: ControlPlane) -> None:
        self._url, self._token = plane.url, plane.admin_token
        self._tls = ssl.create_default_context(cafile=str(plane.ca_file))

    def get(self, path: str, accept: str = JSON) -> bytes:
        headers = {"Authorization": f"Bearer {self._token}", "Accept": accept}
        request = urllib.request.Request(self._url + path, headers=headers)  # noqa: S310  # our own loopback server
        with urllib.request.urlopen(request, context=self._tls) as answer:  # noqa: S310  # the same
            return answer.read()

    def json(self, path: str) -> Any:
        return msgspec.json.decode(self.get(path))


@pytest.fixture(scope="module")
def real(control_plane: ControlPlane, kubectl: Kubectl) -> Reader:
    """With objects of many kinds in it."""
    kubectl("create", "namespace", NAMESPACE)
    for manifest in (
        pods.POD,
        workloads.DEPLOYMENT,
        workloads.SETS,
        data.CONFIG,
        data.SERVICE,
        data.OTHERS,
        cluster.LEASE,
    ):
        kubectl(f"--namespace={NAMESPACE}", "create", "--filename=-", stdin=manifest)
    kubectl(f"--namespace={NAMESPACE}", "apply", "--server-side", "--filename=-", stdin=applying.CONFIG)
    kubectl(f"--namespace={NAMESPACE}", "create", "job", "train", "--image=example.org/train:1")
    kubectl(f"--namespace={NAMESPACE}", "create", "cronjob", "night", "--image=a:1", "--schedule=0 3 * * *")
    return Reader(control_plane)


def _published(real: Reader) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    wanted = {f"apis/{one.group}/{one.version}" if one.group else f"api/{one.version}" for one in BUILTIN}
    for place, entry in real.json("/openapi/v3")["paths"].items():
        if place in wanted | {"apis/autoscaling/v1"}:
            found |= real.json(entry["serverRelativeURL"])["components"]["schemas"]
    return found


def _comparable(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_comparable(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {
        key: {name: _comparable(part) for name, part in value.items()} if key == "properties" else _comparable(value)
        for key, value in schema.items()
        if key not in UNCOMPARED
    }
    if isinstance(kept.get("allOf"), list) and len(kept["allOf"]) == 1:
        kept |= kept.pop("allOf")[0]
    if "required" in kept:
        kept["required"] = sorted(kept["required"])
    return kept


def test_every_described_type_has_the_fields_types_and_keys_of_the_real_one(real: Reader):
    """Complete lists: a field that is not described is a field the real server does not know either."""
    published = _published(real)
    differing = []
    for name, schema in schemas.definitions().items():
        ours, theirs = _comparable(schema), _comparable(published[name])
        if "x-kubernetes-group-version-kind" not in ours:
            theirs.pop("x-kubernetes-group-version-kind", None)  # options and Status bear the name of every group
        if ours != theirs:
            differing.append((name, ours, theirs))

    assert differing == []
    print(f"schemas: {len(schemas.definitions())} types, 0 differences")


@pytest.mark.parametrize("served", LISTED, ids=lambda served: f"{served.plural}.{served.group}".rstrip("."))
def test_reading_and_writing_an_object_changes_nothing_about_it(served: Served, real: Reader):
    """What the real server wrote is already in its one form; protobuf and JSON tell of the same object."""
    for item in _objects(real, served.resource):
        where = served.resource.path(item["metadata"].get("namespace", ""), item["metadata"]["name"])
        shown = real.json(where)
        wire = protobuf.decode(real.get(where, protobuf.MEDIA_TYPE))

        assert canonical(served.group, served.version, served.kind, shown) == shown
        assert canonical(served.group, served.version, served.kind, wire) == shown


def _objects(real: Reader, resource: Resource) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = real.json(f"{resource.path()}?limit={PER_KIND}")["items"]
    return found


@pytest.mark.parametrize("version", sorted({(one.group, one.version) for one in BUILTIN}), ids="/".join)
def test_a_resource_is_discovered_as_on_the_real_server(version: tuple[str, str], real: Reader):
    """Names, scope, verbs, short names, categories and subresources of every resource we serve."""
    path = f"/apis/{'/'.join(version)}" if version[0] else f"/api/{version[1]}"
    answer = Discovery(Registry(BUILTIN)).answer(Call("GET", path))
    assert answer is not None
    theirs = {entry["name"]: entry for entry in real.json(path)["resources"]}
    for entry in theirs.values():
        entry.pop("storageVersionHash", None)

    for ours in answer.json()["resources"]:
        assert ours == theirs[ours["name"]]
