"""Everything that is wrong with a manifest that a user wrote: the CRD's own rules, and those it cannot express."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from tgp.api.budget import GPUWorkloadBudget
from tgp.api.decoding import strict
from tgp.api.field_error import FieldError, Invalid
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.core.classes.semantic_validation import (
    budget_problems,
    class_problems,
    pool_problems,
    request_against_class,
    request_problems,
)

_BEYOND: Mapping[type, Callable[[Any], list[FieldError]]] = {
    GPUNodeClass: class_problems,
    GPUNodePool: pool_problems,
    GPURequest: request_problems,
    GPUWorkloadBudget: budget_problems,
}


def classes_among(manifests: Iterable[Mapping[str, Any]]) -> dict[str, GPUNodeClass]:
    """By name, as far as they can be read."""
    found: dict[str, GPUNodeClass] = {}
    for manifest in manifests:
        if manifest.get("kind") == "GPUNodeClass":
            try:
                value = strict(manifest)
            except Invalid:
                continue
            if isinstance(value, GPUNodeClass):
                found[value.metadata.name] = value
    return found


def problems_of(
    manifest: Mapping[str, Any], classes: Mapping[str, GPUNodeClass] = MappingProxyType({})
) -> tuple[FieldError, ...]:
    """Everything that the API server or a controller would refuse. Time zones are not looked at, and of other objects
    only the classes that are given, by name.
    """
    try:
        value = strict(manifest)
    except Invalid as error:
        named = tuple(problem for problem in error.problems if problem.path)
        return named or error.problems
    beyond = _BEYOND.get(type(value))
    problems = tuple(beyond(value)) if beyond is not None else ()
    ref = value.spec.node_class_ref if isinstance(value, GPURequest) else None
    if isinstance(value, GPURequest) and ref is not None and ref.name in classes:
        problems += tuple(request_against_class(value, classes[ref.name]))
    return problems
