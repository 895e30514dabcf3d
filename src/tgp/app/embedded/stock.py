"""What is there when the embedded world begins: definitions, the operator's rights, teams, classes, pools."""

from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tgp.api.crds import crds
from tgp.api.resource import CUSTOM_RESOURCE_DEFINITION, SECRET, Resource
from tgp.app.embedded.market import EmbeddedMarket
from tgp.core.model.join import JOIN_SECRET, NEEDED
from tgp.core.rules.secrets import OPERATOR_SECRET
from tgp.core.rules.talos.inert import inert_join
from tgp.sim.apiserver import ApiServer

NAMESPACE = "tgp-system"
ACCOUNT = "tgp-operator"
MANIFESTS = ("teams.yaml", "classes.yaml", "pools.yaml")
PERSON = "kubectl-client-side-apply"  # the field manager of somebody with kubectl
ENDPOINT = "https://100.64.0.1:6443"  # of the control plane, in the tailnet
KEYS_AT_FIRST = ("RUNPOD_API_KEY", "VAST_API_KEY", "VULTR_API_KEY")
TREE = Path(__file__).parents[4]  # the repository, where the package is not installed from a wheel


def furnish(server: ApiServer, market: EmbeddedMarket) -> None:
    """Everything, in the order a person would apply it."""
    for definition in crds():
        server.backstage.as_manager(PERSON).create(CUSTOM_RESOURCE_DEFINITION, definition)
    for manifest in _documents(_rbac()):
        place(server, manifest)
    place(server, provider_keys(market))
    place(server, join_secret())
    for name in MANIFESTS:
        for manifest in _documents(files(__package__) / "manifests" / name):
            place(server, manifest)


def place(server: ApiServer, manifest: dict[str, Any]) -> None:
    server.backstage.as_manager(PERSON).create(resource_of(server, manifest), manifest)


def provider_keys(market: EmbeddedMarket) -> dict[str, Any]:
    """The operator's own Secret, with the keys of some providers: the others are supplied later, or never."""
    return {
        "apiVersion": SECRET.api_version,
        "kind": SECRET.kind,
        "metadata": {"name": OPERATOR_SECRET, "namespace": NAMESPACE},
        "stringData": {variable: market.key(variable) for variable in KEYS_AT_FIRST} | market.mesh_keys(),
    }


def join_secret() -> dict[str, Any]:
    """What a worker of this cluster must know. Of the right form, and good for nothing elsewhere."""
    join = inert_join()
    values = {
        "machine-token": join.machine_token.reveal(),
        "machine-ca.crt": join.machine_ca,
        "cluster-ca.crt": join.cluster_ca,
        "cluster-id": join.cluster_id.reveal(),
        "cluster-secret": join.cluster_secret.reveal(),
        "endpoint": ENDPOINT,
        "cluster-name": "home",
    }
    assert set(values) == set(NEEDED), "all that is needed, and no more"
    return {
        "apiVersion": SECRET.api_version,
        "kind": SECRET.kind,
        "metadata": {"name": JOIN_SECRET, "namespace": NAMESPACE},
        "stringData": values,
    }


def resource_of(server: ApiServer, manifest: dict[str, Any]) -> Resource:
    """Where a manifest's kind is served."""
    group, _, version = manifest["apiVersion"].rpartition("/")
    for served in server.registry:
        if (served.group, served.version, served.kind) == (group, version, manifest["kind"]):
            return Resource(group, version, served.plural, served.kind, served.namespaced)
    raise AssertionError(f"nobody serves {manifest['apiVersion']} {manifest['kind']}")


def _rbac() -> Traversable:
    """The shipped rights, from the wheel or from the tree: the very file that a cluster would be given."""
    inside = files("tgp") / "deploy" / "rbac" / "operator.yaml"
    return inside if inside.is_file() else TREE / "deploy" / "rbac" / "operator.yaml"


def _documents(file: Traversable) -> Iterator[dict[str, Any]]:
    yield from YAML(typ="safe", pure=True).load_all(file.read_text(encoding="utf-8"))
