"""`tgp check -f`: what the API server and the controllers would say of a manifest, in their words.

Each rule is asked where a controller asks it. A manifest is judged against the objects beside it: the classes, the
labels of Namespaces and the time zones that are known. What is not known is not judged.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from tgp.api.budget import GPUWorkloadBudget
from tgp.api.decoding import strict
from tgp.api.field_error import FieldError, Invalid, Reason
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.api.values import Version
from tgp.core.budgets.quota import spec_problem
from tgp.core.classes.manifest_validation import problems_of
from tgp.core.classes.nodeclass import namespace_allowed
from tgp.core.classes.refused_machines import endpoint_problems
from tgp.core.classes.semantic_validation import (
    BUDGET_RULE,
    CLASS_MISSING,
    NAMESPACE_REFUSED,
    NAMESPACE_RULE,
    beyond_class,
    kubelet_problems,
    request_against_class,
    unknown_time_zones,
)
from tgp.core.pools.nodepool import unsatisfiable

REF = "spec.nodeClassRef.name"
NONE_KNOWN: Mapping[str, Any] = MappingProxyType({})


class Surroundings(msgspec.Struct, frozen=True):
    """What is known besides the manifest."""

    classes: Mapping[str, GPUNodeClass] = NONE_KNOWN  # by name
    every_class: bool = False  # whether these are all that the cluster has, or will have
    namespaces: Mapping[str, Mapping[str, str]] = NONE_KNOWN  # labels, by name
    time_zones: frozenset[str] = frozenset()  # the IANA names this system has; empty: they are unknown
    server: Version | None = None  # of the API server
    operators: str = "tgp-system"  # the operator's namespace
    namespaces_required: bool = False  # a class without allowedNamespaces serves no namespace


def among(manifests: Iterable[Mapping[str, Any]], known: Surroundings) -> Surroundings:
    """What is known, and the classes and Namespaces of these manifests, as far as they can be read."""
    classes, namespaces = dict(known.classes), dict(known.namespaces)
    for manifest in manifests:
        if manifest.get("kind") == "GPUNodeClass":
            try:
                value = strict(manifest)
            except Invalid:
                continue
            if isinstance(value, GPUNodeClass):
                classes[value.metadata.name] = value
        elif manifest.get("kind") == "Namespace" and manifest.get("apiVersion") == "v1":
            meta = manifest.get("metadata")
            if isinstance(meta, dict) and isinstance(meta.get("name"), str):
                labels = meta.get("labels")
                # The API server adds this one.
                named = {"kubernetes.io/metadata.name": meta["name"]}
                namespaces[meta["name"]] = {**(labels if isinstance(labels, dict) else {}), **named}
    return msgspec.structs.replace(known, classes=classes, namespaces=namespaces)


def refused(manifest: Mapping[str, Any]) -> bool:
    """By the API server, whatever else there is; it creates the rest, and a controller marks what cannot work."""
    try:
        strict(manifest)
    except Invalid:
        return True
    return False


def verdict(manifest: Mapping[str, Any], known: Surroundings) -> tuple[FieldError, ...]:
    """Everything that the API server would refuse, or a controller."""
    problems = problems_of(manifest)
    try:
        value = strict(manifest)
    except Invalid:
        return problems
    return (*problems, *_beside(value, known))


def _beside(value: object, known: Surroundings) -> Iterator[FieldError]:
    match value:
        case GPUNodeClass():
            yield from _zones(value, known)
            yield from endpoint_problems(value)
            if known.server is not None:
                yield from kubelet_problems(value, known.server)
        case GPUNodePool():
            yield from _zones(value, known)
            node_class = known.classes.get(value.spec.node_class_ref.name)
            yield from _of_class(value.spec.node_class_ref.name, value.metadata.namespace, known)
            yield from unsatisfiable(value, node_class)
        case GPURequest() if value.spec.node_class_ref is not None:
            name = value.spec.node_class_ref.name
            yield from _of_class(name, value.metadata.namespace, known)
            if (node_class := known.classes.get(name)) is not None:
                yield from request_against_class(value, node_class)
                yield from beyond_class(value.spec, node_class, name)
        case GPUWorkloadBudget():
            found = spec_problem(value.spec, value.metadata.namespace or "default", known.operators)
            if found is not None:
                path, _, detail = found[1].partition(" ")
                yield FieldError(path, Reason.INVALID, detail, rule=BUDGET_RULE)


def _zones(value: GPUNodeClass | GPUNodePool, known: Surroundings) -> Iterable[FieldError]:
    return unknown_time_zones(value, known.time_zones) if known.time_zones else ()


def _of_class(name: str, namespace: str | None, known: Surroundings) -> Iterator[FieldError]:
    node_class, labels = known.classes.get(name), known.namespaces.get(namespace or "default")
    if node_class is None:
        if known.every_class:
            yield FieldError(REF, Reason.INVALID, f"GPUNodeClass {name!r} {CLASS_MISSING}")
    elif labels is not None and not namespace_allowed(node_class, labels, required=known.namespaces_required):
        yield FieldError(REF, Reason.FORBIDDEN, f"GPUNodeClass {name} {NAMESPACE_REFUSED}", rule=NAMESPACE_RULE)
