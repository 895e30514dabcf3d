"""What is there when the embedded world begins: definitions, the operator's rights, teams, classes, pools."""

from importlib.resources import files
from typing import Any

from tgp.api.crds import crds
from tgp.api.resource import CUSTOM_RESOURCE_DEFINITION, SECRET, Resource
from tgp.app.embedded.market import EmbeddedMarket
from tgp.app.shipped import documents, operator_rights
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


def furnish(server: ApiServer, market: EmbeddedMarket) -> None:
    """Everything, in the order a person would apply it."""
    for definition in crds(ancestor=True):
        server.backstage.as_manager(PERSON).create(CUSTOM_RESOURCE_DEFINITION, definition)
    for manifest in operator_rights():
        place(server, manifest)
    place(server, provider_keys(market))
    place(server, join_secret())
    for name in MANIFESTS:
        for manifest in documents(files(__package__) / "manifests" / name):
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
