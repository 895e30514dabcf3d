"""What `tgp init` learns of a cluster and a provider, what the user answers, and the objects that follow from both."""

from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tgp.api.crds import crds
from tgp.api.resource import (
    CUSTOM_RESOURCE_DEFINITION,
    GPU_NODE_CLASS,
    GPU_NODE_POOL,
    NAMESPACE,
    SECRET,
    Resource,
)
from tgp.core.joining.mesh.detection import FoundMesh
from tgp.core.model.class_secrets import OPERATOR_SECRET
from tgp.core.model.join import JOIN_SECRET
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.secret import Secret
from tgp.services.market_answers import CheckRow, OfferItem
from tgp.services.preflight_answers import ClusterFinding
from tgp.services.talos_answers import Stored

FIRST_NAME = "gpus"  # of the class and the pool
TAGS = ("tag:tgp-gpu",)
MOST_MACHINES = 1  # of the first class: cheap enough to be forgotten for a night
LONGEST_LIFE = "12h"
IDLE = "10m"
TAILSCALE, HEADSCALE, KUBESPAN, NO_MESH = "tailscale", "headscale", "kubespan", "none"
OAUTH_KEYS = ("client-id", "client-secret")
HEADSCALE_KEY = "headscale-api-key"


@dataclass(frozen=True, slots=True)
class ClusterSurvey:
    """What was found. Only what can be read is there; a gap that stops everything is in `blocking`."""

    findings: tuple[ClusterFinding, ...] = ()
    blocking: tuple[ClusterFinding, ...] = ()  # a part of `findings`
    absent_kinds: tuple[str, ...] = ()
    namespace_there: bool = True
    secret: Stored | None = None  # the operator's; None: it does not exist
    join_there: bool = True
    classes: tuple[str, ...] = ()  # the default one first
    pools: tuple[ObjectKey, ...] = ()
    operator_runs: bool = False
    mesh: FoundMesh | None = None  # of the cluster's own nodes; None: not known


@dataclass(frozen=True, slots=True)
class TriedProvider:
    """A provider's answer to a key."""

    row: CheckRow
    offers: tuple[OfferItem, ...] = ()  # that can become nodes, the cheapest first


@dataclass(frozen=True, slots=True)
class SetupAnswers:
    """What the user said; what is empty is not needed."""

    provider: str = ""
    gpu: str = ""
    mesh: str = TAILSCALE
    login_server: str = ""  # of Headscale
    max_hourly_cost: str = ""
    keys: Mapping[str, Secret] = field(default_factory=dict)  # for the operator's Secret
    join: Mapping[str, str] | None = field(default=None, repr=False)
    pool_namespace: str = "default"


@dataclass(frozen=True, slots=True)
class PlannedObject:
    """An object that is created; or, with `adds`, a Secret that gets these keys. Nothing else is ever changed."""

    resource: Resource
    manifest: Mapping[str, Any] = field(repr=False)
    adds: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        meta = self.manifest["metadata"]
        name = "/".join(part for part in (meta.get("namespace"), meta["name"]) if part)
        return f"{self.resource.kind} {name}"


def planned_objects(survey: ClusterSurvey, answers: SetupAnswers, namespace: str) -> tuple[PlannedObject, ...]:
    """In the order in which they are created. `namespace`: the operator's."""
    return tuple(_planned(survey, answers, namespace))


def _planned(survey: ClusterSurvey, answers: SetupAnswers, namespace: str) -> Iterator[PlannedObject]:
    for definition in crds():
        if definition["spec"]["names"]["kind"] in survey.absent_kinds:
            yield PlannedObject(CUSTOM_RESOURCE_DEFINITION, definition)
    if not survey.namespace_there:
        yield PlannedObject(NAMESPACE, _manifest(NAMESPACE, namespace))
    held = survey.secret.values if survey.secret is not None else {}
    missing = {key: value.reveal() for key, value in answers.keys.items() if not held.get(key)}
    if missing:
        adds = tuple(missing) if survey.secret is not None else ()
        yield PlannedObject(SECRET, _secret(OPERATOR_SECRET, namespace, missing), adds)
    if answers.join is not None and not survey.join_there:
        yield PlannedObject(SECRET, _secret(JOIN_SECRET, namespace, answers.join))
    if answers.provider and not survey.classes:
        yield PlannedObject(GPU_NODE_CLASS, class_manifest(answers))
    if not survey.pools and (survey.classes or answers.provider):
        spec: dict[str, Any] = {"nodeClassRef": {"name": survey.classes[0] if survey.classes else FIRST_NAME}}
        spec |= {"maxHourlyPrice": answers.max_hourly_cost} if answers.max_hourly_cost else {}
        spec |= {"disruption": {"consolidateAfter": IDLE, "expireAfter": LONGEST_LIFE}}
        manifest = _manifest(GPU_NODE_POOL, FIRST_NAME, answers.pool_namespace)
        yield PlannedObject(GPU_NODE_POOL, {**manifest, "spec": spec})


def class_manifest(answers: SetupAnswers) -> dict[str, Any]:
    spec: dict[str, Any] = {"providers": [{"name": answers.provider}]}
    if answers.mesh == TAILSCALE:
        spec["tailscaleConfig"] = {"tags": list(TAGS)}
    elif answers.mesh == HEADSCALE:
        key = {"name": OPERATOR_SECRET, "key": HEADSCALE_KEY}
        spec["tailscaleConfig"] = {"tags": list(TAGS), "loginServer": answers.login_server, "apiKeySecretRef": key}
    else:
        spec["networking"] = {"backend": answers.mesh}
    if answers.gpu:
        spec["instanceRequirements"] = {"gpuTypes": [answers.gpu]}
    spec["limits"] = {"maxNodes": MOST_MACHINES, "maxHourlyCost": answers.max_hourly_cost}
    return {**_manifest(GPU_NODE_CLASS, FIRST_NAME), "spec": spec}


def _manifest(resource: Resource, name: str, namespace: str = "") -> dict[str, Any]:
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta}


def _secret(name: str, namespace: str, values: Mapping[str, str]) -> dict[str, Any]:
    data = {key: b64encode(value.encode()).decode() for key, value in values.items()}
    return {**_manifest(SECRET, name, namespace), "type": "Opaque", "data": data}
