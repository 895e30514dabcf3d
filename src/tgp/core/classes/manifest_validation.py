"""Everything that is wrong with a manifest that a user wrote: the CRD's own rules, and those it cannot express."""

from collections.abc import Callable, Mapping
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
    request_problems,
)

_BEYOND: Mapping[type, Callable[[Any], list[FieldError]]] = {
    GPUNodeClass: class_problems,
    GPUNodePool: pool_problems,
    GPURequest: request_problems,
    GPUWorkloadBudget: budget_problems,
}


def problems_of(manifest: Mapping[str, Any]) -> tuple[FieldError, ...]:
    """Everything that the API server or a controller would refuse in this object alone; `verdict` looks at others."""
    try:
        value = strict(manifest)
    except Invalid as error:
        named = tuple(problem for problem in error.problems if problem.path)
        return named or error.problems
    beyond = _BEYOND.get(type(value))
    return tuple(beyond(value)) if beyond is not None else ()
