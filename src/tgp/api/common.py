"""Pieces that several kinds share: metadata, conditions, references, selectors, taints, requirements."""

from datetime import datetime
from typing import Annotated, TypeAlias

import msgspec

from tgp.api import rules, values
from tgp.api.field import Field, Rule, Wire
from tgp.api.pattern import matches

LABELS_MAX = 64  # per object; a Node carries some thirty of its own
Labels: TypeAlias = dict[str, Annotated[str, Field(max_length=63, rules=(rules.LABEL_VALUE,))]]
POSITIVE_QUANTITY = Field(
    doc='More than zero: a number, or a Kubernetes quantity such as "500m" or "64Gi".',
    max_length=32,
    minimum=1,
    pattern=values.QUANTITY_ABOVE_ZERO,
)
Quantities: TypeAlias = dict[str, Annotated[int | str, POSITIVE_QUANTITY]]

PROVIDERS = ("vast", "runpod", "lambdalabs", "paperspace", "vultr", "gcp", "webhook", "simulated")
ALIASES = {"vastai": "vast", "vast.ai": "vast", "lambda": "lambdalabs", "lambda-labs": "lambdalabs"}
PROVIDER_NAMES = (*PROVIDERS, *ALIASES)


def canonical_provider(name: str) -> str:
    """The provider an accepted spelling means: `vast.ai` is vast. A name nobody knows stays as it is."""
    return ALIASES.get(name, name)


def spellings(provider: str) -> tuple[str, ...]:
    """Every accepted way to write a provider's name, its own first."""
    return (provider, *(alias for alias, meant in ALIASES.items() if meant == provider))


class OwnerReference(Wire, frozen=True, kw_only=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMeta(Wire, frozen=True, kw_only=True):
    """The part of an object's metadata that we read. The API server keeps and validates it."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None  # not None: asked to go, held by finalizers
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()


class Condition(Wire, frozen=True, kw_only=True):
    """One statement about the object: is it true, why, since when."""

    type: Annotated[str, Field(doc="What the statement is about, such as Ready.", max_length=316)]
    status: Annotated[
        str, Field(doc="True, False, or Unknown while nobody can say.", enum=("True", "False", "Unknown"))
    ]
    reason: Annotated[
        str, Field(doc="One word for programs, such as NodeClassNotFound.", min_length=1, max_length=1024)
    ] = "Unknown"
    message: Annotated[str, Field(doc="A sentence for people, with what to do next.", max_length=32768)] = ""
    last_transition_time: Annotated[
        datetime | None, Field(doc="When the status last became what it is.", format="date-time")
    ] = None
    observed_generation: Annotated[
        int, Field(doc="The generation of the spec this statement was made about.", minimum=0)
    ] = 0


Conditions: TypeAlias = Annotated[
    tuple[Condition, ...],
    Field(
        doc="Statements about this object. They carry the truth; everything else in the status is a summary.",
        list_type="map",
        list_key="type",
        max_items=32,
    ),
]

_NAMESPACE = rules.reads_or_empty(rules.DNS_LABEL_PATTERN, "must be a namespace's name")
_SECRET_NAME = Field(doc="The Secret's name.", min_length=1, max_length=253, rules=(rules.DNS_SUBDOMAIN,))
_SECRET_KEY = Field(doc="The key in the Secret.", min_length=1, max_length=253, rules=(rules.SECRET_KEY,))
_SECRET_NAMESPACE = Field(
    doc=(
        "Accepted because old manifests have it. Secrets are only ever read from the operator's own namespace, "
        "so any other value keeps the class from becoming Ready (reason ForeignNamespace)."
    ),
    max_length=63,
    rules=(_NAMESPACE,),
)


class SecretKeyRef(Wire, frozen=True, kw_only=True):
    """One key of one Secret in the operator's namespace."""

    name: Annotated[str, _SECRET_NAME]
    key: Annotated[str, _SECRET_KEY]
    namespace: Annotated[str | None, _SECRET_NAMESPACE] = None


class OAuthSecretRef(Wire, frozen=True, kw_only=True):
    """A Secret in the operator's namespace with the two halves of an OAuth client."""

    name: Annotated[str, _SECRET_NAME]
    client_id_key: Annotated[
        str, Field(doc="The key that holds the client id.", min_length=1, max_length=253, rules=(rules.SECRET_KEY,))
    ] = "client-id"
    client_secret_key: Annotated[
        str,
        Field(doc="The key that holds the client secret.", min_length=1, max_length=253, rules=(rules.SECRET_KEY,)),
    ] = "client-secret"  # noqa: S105 (the name of a key in a Secret, not a secret)
    namespace: Annotated[str | None, _SECRET_NAMESPACE] = None


class NodeClassRef(Wire, frozen=True, kw_only=True):
    """The GPUNodeClass that says how machines are rented and joined."""

    name: Annotated[
        str,
        Field(doc="The class's name.", min_length=1, max_length=63, rules=(rules.DNS_SUBDOMAIN,)),
    ]
    kind: Annotated[str, Field(doc="Always GPUNodeClass.", enum=("GPUNodeClass",))] = "GPUNodeClass"
    group: Annotated[str, Field(doc="Always tgp.io.", enum=("tgp.io",))] = "tgp.io"


def _values_fit(self: dict[str, object], _old: object) -> bool:
    return bool(self.get("values")) == (self["operator"] in {"In", "NotIn"})


class SelectorRequirement(Wire, frozen=True, kw_only=True):
    """One condition on the labels of an object."""

    object_rules = (
        Rule(
            "(has(self.values) && self.values.size() > 0) == (self.operator in ['In', 'NotIn'])",
            "In and NotIn need at least one value, Exists and DoesNotExist take none",
            _values_fit,
            field=".values",
        ),
    )
    key: Annotated[str, Field(doc="The label's key.", min_length=1, max_length=317, rules=(rules.QUALIFIED,))]
    operator: Annotated[
        str,
        Field(doc="In, NotIn, Exists or DoesNotExist.", enum=("In", "NotIn", "Exists", "DoesNotExist")),
    ]
    values: Annotated[
        tuple[Annotated[str, Field(max_length=63, rules=(rules.LABEL_VALUE,))], ...],
        Field(doc="Values for In and NotIn.", max_items=64, list_type="atomic"),
    ] = ()


class LabelSelector(Wire, frozen=True, kw_only=True):
    """Kubernetes's label selector. All parts must hold."""

    object_map_type = "atomic"
    match_labels: Annotated[
        Labels,
        Field(
            doc="Labels an object must carry with exactly these values.",
            max_properties=32,
            rules=(rules.QUALIFIED_KEYS,),
        ),
    ] = msgspec.field(default_factory=dict)
    match_expressions: Annotated[
        tuple[SelectorRequirement, ...],
        Field(doc="Further conditions on labels.", max_items=16, list_type="atomic"),
    ] = ()


class Taint(Wire, frozen=True, kw_only=True):
    """Keeps pods off a node unless they tolerate it."""

    key: Annotated[
        str,
        Field(doc="The taint's key, such as gpu-node.", min_length=1, max_length=317, rules=(rules.QUALIFIED,)),
    ]
    value: Annotated[
        str | None, Field(doc="The taint's value; may be empty.", max_length=63, rules=(rules.LABEL_VALUE,))
    ] = None
    effect: Annotated[
        str,
        Field(
            doc="NoSchedule keeps new pods away, PreferNoSchedule tries to, NoExecute also moves running ones.",
            enum=("NoSchedule", "PreferNoSchedule", "NoExecute"),
        ),
    ]


# What a machine can be asked for: the labels its Node will carry, and where and what it is.
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


class NodeRequirement(Wire, frozen=True, kw_only=True):
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
                "Any other key is refused: no machine would ever carry it."
            ),
            min_length=1,
            max_length=317,
            rules=(rules.QUALIFIED,),
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
        tuple[Annotated[str, Field(max_length=63, rules=(rules.LABEL_VALUE,))], ...],
        Field(
            doc="At least one for In and NotIn, exactly one for Gt and Lt, none for Exists and DoesNotExist.",
            max_items=64,
            list_type="atomic",
        ),
    ] = ()
