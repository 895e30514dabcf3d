"""The objects at the start of the demo: CRDs, the operator's RBAC, teams, classes, pools."""

from importlib.resources import files
from typing import Any

from tgp.api.crds import crds
from tgp.api.resource import CUSTOM_RESOURCE_DEFINITION, SECRET, Resource
from tgp.app.demo.market import EmbeddedMarket
from tgp.core.joining.talos.placeholder_values import placeholder_join
from tgp.core.model.class_secrets import OPERATOR_SECRET
from tgp.core.model.join import JOIN_SECRET, NEEDED
from tgp.services.shipped import budget_policies, documents, operator_rights
from tgp.sim.apiserver import ApiServer

NAMESPACE = "tgp-system"
ACCOUNT = "tgp-operator"
MANIFESTS = ("teams.yaml", "classes.yaml", "pools.yaml")
FIELD_MANAGER = "kubectl-client-side-apply"  # kubectl's own
ENDPOINT = "https://100.64.0.1:6443"  # of the control plane, in the tailnet
KEYS_AT_FIRST = ("RUNPOD_API_KEY", "VAST_API_KEY", "VULTR_API_KEY")


def create_fixtures(server: ApiServer, market: EmbeddedMarket) -> None:
    """Everything, in the order in which a user would apply it."""
    for definition in crds(legacy=True):
        server.local_api.as_manager(FIELD_MANAGER).create(CUSTOM_RESOURCE_DEFINITION, definition)
    for manifest in (*operator_rights(), *budget_policies()):
        create_object(server, manifest)
    create_object(server, provider_keys(market))
    create_object(server, join_secret())
    for name in MANIFESTS:
        for manifest in documents((files(__package__) / "manifests" / name).read_text(encoding="utf-8")):
            create_object(server, manifest)


def create_object(server: ApiServer, manifest: dict[str, Any]) -> None:
    server.local_api.as_manager(FIELD_MANAGER).create(resource_of(server, manifest), manifest)


def provider_keys(market: EmbeddedMarket) -> dict[str, Any]:
    """The operator's own Secret, with the API keys of some providers: others are added later, or never."""
    return {
        "apiVersion": SECRET.api_version,
        "kind": SECRET.kind,
        "metadata": {"name": OPERATOR_SECRET, "namespace": NAMESPACE},
        "stringData": {variable: market.key(variable) for variable in KEYS_AT_FIRST} | market.mesh_keys(),
    }


def join_secret() -> dict[str, Any]:
    """What a worker of this cluster needs. Valid in form, and useless elsewhere."""
    join = placeholder_join()
    values = {
        "machine-token": join.machine_token.reveal(),
        "machine-ca.crt": join.machine_ca,
        "cluster-ca.crt": join.cluster_ca,
        "cluster-id": join.cluster_id.reveal(),
        "cluster-secret": join.cluster_secret.reveal(),
        "endpoint": ENDPOINT,
        "cluster-name": "home",
    }
    assert set(values) == set(NEEDED), "exactly the needed keys"
    return {
        "apiVersion": SECRET.api_version,
        "kind": SECRET.kind,
        "metadata": {"name": JOIN_SECRET, "namespace": NAMESPACE},
        "stringData": values,
    }


def resource_of(server: ApiServer, manifest: dict[str, Any]) -> Resource:
    """The resource of a manifest's kind."""
    group, _, version = manifest["apiVersion"].rpartition("/")
    for served in server.registry:
        if (served.group, served.version, served.kind) == (group, version, manifest["kind"]):
            return Resource(group, version, served.plural, served.kind, served.namespaced)
    raise AssertionError(f"the API server does not serve {manifest['apiVersion']} {manifest['kind']}")
