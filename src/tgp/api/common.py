"""Pieces that several kinds share: metadata, conditions, references, selectors, taints, requirements."""

from datetime import datetime
from typing import Annotated, TypeAlias

import msgspec

from tgp.api import cel
from tgp.api.field import ApiStruct, Field, Rule
from tgp.api.pattern import matches

LABELS_MAX = 64  # per object; a Node carries some thirty of its own
Labels: TypeAlias = dict[str, Annotated[str, Field(max_length=63, rules=(cel.LABEL_VALUE,))]]
POSITIVE_QUANTITY = Field(
    doc='More than zero: a number, or a Kubernetes quantity such as "500m" or "64Gi".',
    max_length=32,
    rules=(cel.QUANTITY, cel.QUANTITY_ABOVE_ZERO),
)
Quantities: TypeAlias = dict[str, Annotated[int | str, POSITIVE_QUANTITY]]

DEFAULT_KEYS = {
    "vast": "VAST_API_KEY",
    "runpod": "RUNPOD_API_KEY",
    "lambdalabs": "LAMBDA_LABS_API_KEY",
    "paperspace": "PAPERSPACE_API_KEY",
    "vultr": "VULTR_API_KEY",
    "gcp": "GCP_SERVICE_ACCOUNT_JSON",
}  # providers with an API key: its name in the operator's Secret, and as an environment variable of a terminal
KEY_IS_A_FILE = frozenset({"gcp"})  # many lines, so the command reads a file
OWNED_PROVIDER = "webhook"  # of machines you own: they are powered on and off, and need no API key
PROVIDERS = (*DEFAULT_KEYS, OWNED_PROVIDER, "simulated")
ALIASES = {"vastai": "vast", "vast.ai": "vast", "lambda": "lambdalabs", "lambda-labs": "lambdalabs"}
PROVIDER_NAMES = (*PROVIDERS, *ALIASES)


def canonical_provider(name: str) -> str:
    """The provider an accepted spelling means: `vast.ai` is vast. An unknown name stays as it is."""
    return ALIASES.get(name, name)


def spellings(provider: str) -> tuple[str, ...]:
    """Every accepted way to write a provider's name, its own first."""
    return (provider, *(alias for alias, meant in ALIASES.items() if meant == provider))


class OwnerReference(ApiStruct, frozen=True, kw_only=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMeta(ApiStruct, frozen=True, kw_only=True):
    """The part of an object's metadata that we read. The API server keeps and validates it."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None  # not None: deletion was requested, finalizers still hold the object
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()


class Condition(ApiStruct, frozen=True, kw_only=True):
    """One statement about the object: is it true, why, since when."""

    type: Annotated[str, Field(doc="What the statement is about, such as Ready.", max_length=316)]
    status: Annotated[
        str, Field(doc="True, False, or Unknown while the operator cannot decide.", enum=("True", "False", "Unknown"))
    ]
    reason: Annotated[
        str,
        Field(
            doc="The reason as one CamelCase token for programs, such as NodeClassNotFound.",
            min_length=1,
            max_length=1024,
        ),
    ] = "Unknown"
    message: Annotated[str, Field(doc="What happened and what to do next, as a sentence.", max_length=32768)] = ""
    last_transition_time: Annotated[datetime | None, Field(doc="When the status last changed.", format="date-time")] = (
        None
    )
    observed_generation: Annotated[
        int, Field(doc="The generation of the spec this statement was made about.", minimum=0)
    ] = 0


Conditions: TypeAlias = Annotated[
    tuple[Condition, ...],
    Field(
        doc="Statements about this object. The conditions are authoritative; every other status field is a summary.",
        list_type="map",
        list_key="type",
        max_items=32,
    ),
]

_NAMESPACE = cel.reads_or_empty(cel.DNS_LABEL_PATTERN, "must be a namespace's name")
_SECRET_NAME = Field(doc="The Secret's name.", min_length=1, max_length=253, rules=(cel.DNS_SUBDOMAIN,))
_SECRET_KEY = Field(doc="The key in the Secret.", min_length=1, max_length=253, rules=(cel.SECRET_KEY,))
_SECRET_NAMESPACE = Field(
    doc=(
        "Accepted because old manifests have it. Secrets are only ever read from the operator's own namespace, "
        "so any other value keeps the class from becoming Ready (reason ForeignNamespace)."
    ),
    max_length=63,
    rules=(_NAMESPACE,),
)


class SecretKeyRef(ApiStruct, frozen=True, kw_only=True):
    """One key of one Secret in the operator's namespace."""

    name: Annotated[str, _SECRET_NAME]
    key: Annotated[str, _SECRET_KEY]
    namespace: Annotated[str | None, _SECRET_NAMESPACE] = None


class OAuthSecretRef(ApiStruct, frozen=True, kw_only=True):
    """A Secret in the operator's namespace with the two halves of an OAuth client."""

    name: Annotated[str, _SECRET_NAME]
    client_id_key: Annotated[
        str, Field(doc="The key that holds the client id.", min_length=1, max_length=253, rules=(cel.SECRET_KEY,))
    ] = "client-id"
    client_secret_key: Annotated[
        str,
        Field(doc="The key that holds the client secret.", min_length=1, max_length=253, rules=(cel.SECRET_KEY,)),
    ] = "client-secret"  # noqa: S105 (the name of a key in a Secret, not a secret)
    namespace: Annotated[str | None, _SECRET_NAMESPACE] = None


class NodeClassRef(ApiStruct, frozen=True, kw_only=True):
    """The GPUNodeClass that says how machines are launched and joined."""

    name: Annotated[
        str,
        Field(doc="The class's name.", min_length=1, max_length=63, rules=(cel.DNS_SUBDOMAIN,)),
    ]
    kind: Annotated[str, Field(doc="Always GPUNodeClass.", enum=("GPUNodeClass",))] = "GPUNodeClass"
    group: Annotated[str, Field(doc="Always tgp.io.", enum=("tgp.io",))] = "tgp.io"


def _values_fit(self: dict[str, object], _old: object) -> bool:
    return bool(self.get("values")) == (self["operator"] in {"In", "NotIn"})


class SelectorRequirement(ApiStruct, frozen=True, kw_only=True):
    """One condition on the labels of an object."""

    object_rules = (
        Rule(
            "(has(self.values) && self.values.size() > 0) == (self.operator in ['In', 'NotIn'])",
            "In and NotIn need at least one value, Exists and DoesNotExist take none",
            _values_fit,
            field=".values",
        ),
    )
    key: Annotated[str, Field(doc="The label's key.", min_length=1, max_length=317, rules=(cel.QUALIFIED,))]
    operator: Annotated[
        str,
        Field(doc="In, NotIn, Exists or DoesNotExist.", enum=("In", "NotIn", "Exists", "DoesNotExist")),
    ]
    values: Annotated[
        tuple[Annotated[str, Field(max_length=63, rules=(cel.LABEL_VALUE,))], ...],
        Field(doc="Values for In and NotIn.", max_items=64, list_type="atomic"),
    ] = ()


class LabelSelector(ApiStruct, frozen=True, kw_only=True):
    """Kubernetes's label selector. All parts must hold."""

    object_map_type = "atomic"
    match_labels: Annotated[
        Labels,
        Field(
            doc="Labels an object must carry with exactly these values.",
            max_properties=32,
            rules=(cel.QUALIFIED_KEYS,),
        ),
    ] = msgspec.field(default_factory=dict)
    match_expressions: Annotated[
        tuple[SelectorRequirement, ...],
        Field(doc="Further conditions on labels.", max_items=16, list_type="atomic"),
    ] = ()


class TaintSpec(ApiStruct, frozen=True, kw_only=True):
    """Keeps pods off a node unless they tolerate it."""

    key: Annotated[
        str,
        Field(doc="The taint's key, such as gpu-node.", min_length=1, max_length=317, rules=(cel.QUALIFIED,)),
    ]
    value: Annotated[
        str | None, Field(doc="The taint's value; may be empty.", max_length=63, rules=(cel.LABEL_VALUE,))
    ] = None
    effect: Annotated[
        str,
        Field(
            doc="NoSchedule keeps new pods away, PreferNoSchedule tries to, NoExecute also moves running ones.",
            enum=("NoSchedule", "PreferNoSchedule", "NoExecute"),
        ),
    ]


# What a requirement may name: the labels the machine's Node will carry.
REQUIREMENT_KEYS = (
    "tgp.io/nodepool",
    "tgp.io/nodepool-namespace",
    "tgp.io/request",
    "tgp.io/request-uid",
    "tgp.io/provider",
    "tgp.io/gpu-type",
    "tgp.io/gpu-count",
    "tgp.io/gpu-memory",
    "tgp.io/region",
    "tgp.io/spot",
    "tgp.io/capacity-type",
    "tgp.io/provisioned",
    "nvidia.com/gpu.present",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "node.kubernetes.io/instance-type",
    "eks-node-viewer/instance-price",
    "kubernetes.io/arch",
    "kubernetes.io/os",
)
_NUMBER = r"^[0-9]{1,9}$"


def _operator_has_its_values(self: dict[str, object], _old: object) -> bool:
    given = self.get("values")
    count = len(given) if isinstance(given, list) else 0
    match self["operator"]:
        case "In" | "NotIn":
            return count > 0
        case "Gt" | "Lt":
            return count == 1
        case _:
            return count == 0


def _bounds_are_numbers(self: dict[str, object], _old: object) -> bool:
    given = self.get("values")
    if self["operator"] not in {"Gt", "Lt"} or not isinstance(given, list):
        return True
    return all(matches(value, _NUMBER) for value in given)


class NodeRequirement(ApiStruct, frozen=True, kw_only=True):
    """One condition on the machine: the label its Node will carry, and what its value may be."""

    object_rules = (
        Rule(
            "self.operator in ['In', 'NotIn'] ? (has(self.values) && self.values.size() > 0)"
            " : self.operator in ['Gt', 'Lt'] ? (has(self.values) && self.values.size() == 1)"
            " : (!has(self.values) || self.values.size() == 0)",
            "In and NotIn need at least one value, Gt and Lt exactly one, Exists and DoesNotExist none",
            _operator_has_its_values,
            field=".values",
        ),
        Rule(
            f"!(self.operator in ['Gt', 'Lt']) || !has(self.values) || self.values.all(v, v.matches('{_NUMBER}'))",
            'Gt and Lt compare with a whole number, such as "24"',
            _bounds_are_numbers,
            field=".values",
        ),
    )
    key: Annotated[
        str,
        Field(
            doc=(
                "The label's key: "
                + ", ".join(REQUIREMENT_KEYS)
                + ", or one of the labels in template.metadata.labels. "
                "Any other key is refused: no machine would ever have it."
            ),
            min_length=1,
            max_length=317,
            rules=(cel.QUALIFIED,),
        ),
    ]
    operator: Annotated[
        str,
        Field(
            doc="How the value is compared: In, NotIn, Exists, DoesNotExist, Gt or Lt (whole numbers).",
            enum=("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"),
        ),
    ]
    values: Annotated[
        tuple[Annotated[str, Field(max_length=63, rules=(cel.LABEL_VALUE,))], ...],
        Field(
            doc="At least one for In and NotIn, exactly one for Gt and Lt, none for Exists and DoesNotExist.",
            max_items=64,
            list_type="atomic",
        ),
    ] = ()
