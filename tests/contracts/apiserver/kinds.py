"""The things cases write: two kinds of the suite's own, made to have every schema feature we lean on, and builders."""

from typing import Any

from tests.contracts.apiserver.api import Json
from tgp.api.resource import Resource
from tgp.api.validation import PythonCheck

GROUP = "contract.tgp.io"

WIDGET = Resource(GROUP, "v1", "widgets", "Widget", namespaced=True)
PLAIN = Resource(GROUP, "v1", "plains", "Plain", namespaced=True)  # no status subresource, no schema to speak of

POD_EVICTION = "eviction"
ROLE = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role", namespaced=True)
ROLE_BINDING = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", namespaced=True)
CLUSTER_ROLE = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
TOKEN_REVIEW = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)
WHO_AM_I = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)
ACCESS_REVIEW = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False)
CAN_I = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False)
CORE_EVENT = Resource("", "v1", "events", "Event", namespaced=True)


def widget(name: str, spec: Json | None = None, **metadata: Any) -> Json:
    return {"metadata": {"name": name, **metadata}, "spec": {"size": 1} if spec is None else spec}


def config_map(name: str, data: Json | None = None, **metadata: Any) -> Json:
    return {"metadata": {"name": name, **metadata}, "data": {"k": "v"} if data is None else data}


def pod(name: str, spec: Json | None = None, **metadata: Any) -> Json:
    """A pod that names its account: the harness's API server runs without the admission that would fill it in."""
    asked = {
        "containers": [{"name": "main", "image": "example.org/main:1"}],
        "serviceAccountName": "default",
        "automountServiceAccountToken": False,
        **(spec or {}),
    }
    return {"metadata": {"name": name, **metadata}, "spec": asked}


def lease(name: str, holder: str | None = "one", **spec: Any) -> Json:
    held = {"holderIdentity": holder} if holder is not None else {}
    return {"metadata": {"name": name}, "spec": {**held, "leaseDurationSeconds": 15, **spec}}


def disruption_budget(name: str, labels: Json, **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "minAvailable": 1, **spec}}


def definitions() -> list[Json]:
    """The CustomResourceDefinitions of the suite's own kinds."""
    return [_definition(WIDGET, _WIDGET_VERSION, ["wd"]), _definition(PLAIN, _PLAIN_VERSION, [])]


def _definition(resource: Resource, version: Json, short_names: list[str]) -> Json:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "shortNames": short_names,
                "categories": ["contract"],
            },
            "versions": [version],
        },
    }


# The rules of our Widget in CEL, which the real server reads, and in Python: the in-memory server looks a rule up by
# its text. What is compared is what a server does with a broken rule, not who can read it.
LOW_BELOW_HIGH = "!has(self.low) || !has(self.high) || self.low <= self.high"
TAGS_OF_TWO = "!has(self.tags) || self.tags.all(tag, tag.size() >= 2)"
FROZEN_STAYS = "has(self.frozen) == has(oldSelf.frozen)"
UNCHANGED = "self == oldSelf"
SHORT_NAME = "self.metadata.name.size() <= 40"
PYTHON_CHECKS: dict[str, PythonCheck] = {
    LOW_BELOW_HIGH: lambda spec, _: "low" not in spec or "high" not in spec or spec["low"] <= spec["high"],
    TAGS_OF_TWO: lambda spec, _: all(len(tag) >= 2 for tag in spec.get("tags", ())),
    FROZEN_STAYS: lambda spec, old: ("frozen" in spec) == ("frozen" in old),
    UNCHANGED: lambda value, old: bool(value == old),
    SHORT_NAME: lambda whole, _: len(whole["metadata"].get("name", "")) <= 40,
}

_SPEC: Json = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 100},
        "color": {"type": "string", "enum": ["red", "green", "blue"], "default": "red"},
        "mode": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 10, "nullable": True},
        "limits": {
            "type": "object",
            "default": {},
            "properties": {"max": {"type": "integer", "default": 5}, "burst": {"type": "integer"}},
        },
        "window": {
            "type": "object",
            "required": ["from"],
            "properties": {"from": {"type": "string", "minLength": 1}, "for": {"type": "string", "default": "1h"}},
        },
        "tags": {
            "type": "array",
            "x-kubernetes-list-type": "set",
            "maxItems": 10,
            "items": {"type": "string", "maxLength": 20},
        },
        "parts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "maxItems": 10,
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string", "maxLength": 20},
                    "count": {"type": "integer", "default": 1},
                    "note": {"type": "string"},
                },
            },
        },
        "steps": {
            "type": "array",
            "x-kubernetes-list-type": "atomic",
            "maxItems": 3,
            "items": {"type": "string", "maxLength": 20},
        },
        "labels": {"type": "object", "maxProperties": 3, "additionalProperties": {"type": "string"}},
        "port": {"x-kubernetes-int-or-string": True},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "ratio": {"type": "number"},
        "on": {"type": "boolean"},
        "frozen": {
            "type": "string",
            "maxLength": 20,
            "x-kubernetes-validations": [{"rule": UNCHANGED, "message": "frozen may not change"}],
        },
        "low": {"type": "integer"},
        "high": {"type": "integer"},
    },
    "x-kubernetes-validations": [
        {
            "rule": LOW_BELOW_HIGH,
            "message": "low must not exceed high",
            "fieldPath": ".low",
        },
        {
            "rule": TAGS_OF_TWO,
            "message": "a tag has at least two letters",
        },
        {
            "rule": FROZEN_STAYS,
            "message": "frozen is set at the start or never",
            "reason": "FieldValueForbidden",
        },
    ],
}

_WIDGET_VERSION: Json = {
    "name": "v1",
    "served": True,
    "storage": True,
    "subresources": {"status": {}},
    "selectableFields": [{"jsonPath": ".spec.color"}],
    "additionalPrinterColumns": [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "description": "How large."},
        {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
        {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].status"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ],
    "schema": {
        "openAPIV3Schema": {
            "type": "object",
            "description": "A thing the contract suite turns over in its hands.",
            "required": ["spec"],
            "properties": {
                "spec": _SPEC,
                "status": {
                    "type": "object",
                    "properties": {
                        "phase": {"type": "string"},
                        "ready": {"type": "integer", "minimum": 0},
                        "conditions": {
                            "type": "array",
                            "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["type"],
                            "items": {
                                "type": "object",
                                "required": ["type", "status"],
                                "properties": {
                                    "type": {"type": "string"},
                                    "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                                    "reason": {"type": "string"},
                                },
                            },
                        },
                    },
                },
            },
            "x-kubernetes-validations": [{"rule": SHORT_NAME, "message": "a widget's name has at most 40 characters"}],
        }
    },
}

_PLAIN_VERSION: Json = {
    "name": "v1",
    "served": True,
    "storage": True,
    "schema": {
        "openAPIV3Schema": {
            "type": "object",
            "properties": {
                "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
                "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
            },
        }
    },
}
