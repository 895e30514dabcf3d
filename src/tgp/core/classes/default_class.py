"""Which class serves a request: the one it is pinned to, the one it names, else the default one.

The default is the class annotated so; else the only one; else, where there is none at all, an implicit class made of
the keys in the operator's Secret. Several classes and none of them the default: the request waits, because the
operator does not guess.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from tgp.api.common import DEFAULT_KEYS, Condition, ObjectMeta
from tgp.api.nodeclass import ClassLimits, GPUNodeClass, GPUNodeClassSpec, Networking, ProviderConfig
from tgp.api.request import GPURequest
from tgp.core.classes.can_buy import CANNOT_BUY
from tgp.core.classes.nodeclass import namespace_allowed
from tgp.core.classes.semantic_validation import CLASS_MISSING, NAMESPACE_REFUSED
from tgp.core.model.class_secrets import OPERATOR_SECRET
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey

DEFAULT_ANNOTATION = "tgp.io/is-default-class"
IMPLICIT = "(implicit)"  # no object can have this name
# Enough to try everything out, and cheap enough to be forgotten for a night. For more, write a class.
IMPLICIT_LIMITS = ClassLimits(max_nodes=4, max_hourly_cost="25.00")
OAUTH_KEYS = frozenset({"client-id", "client-secret"})
NAMED_MOST = 5  # classes in a message


class Chosen(msgspec.Struct, frozen=True):
    name: str  # as it is pinned
    value: GPUNodeClass


class Why(msgspec.Struct, frozen=True):
    """Why no class serves the request now; the reason is a condition's reason."""

    reason: str
    message: str


def class_for(
    request: GPURequest,
    classes: Iterable[KubeObject[GPUNodeClass]],
    *,
    namespace_labels: Mapping[str, str],
    allowed_namespaces_required: bool,
) -> Chosen | Why:
    """`classes` may contain the implicit one: it serves requests pinned to it, and others while no class exists."""
    known = {record.key.name: record for record in classes}
    name = _name(request, known)
    if isinstance(name, Why):
        return name
    if name == IMPLICIT and len(known) > (IMPLICIT in known):
        return Why(
            "NodeClassNotFound",
            "GPURequest was reserved with the implicit class, which launches nothing more now that a GPUNodeClass "
            "exists; delete the request and create it again.",
        )
    record = known.get(name)
    if record is None or (name == IMPLICIT and request.spec.node_class_ref is not None):
        return _gone(request, name)
    if record.value is None:
        return Why("NodeClassUnreadable", f"GPUNodeClass {name} was written by a newer version; upgrade the operator.")
    if not namespace_allowed(record.value, namespace_labels, required=allowed_namespaces_required):
        return not_allowed(name)
    return _not_buying(name, record) or Chosen(name, record.value)


def not_allowed(name: str) -> Why:
    return Why("NamespaceNotAllowed", f"{_called(name)} {NAMESPACE_REFUSED}")


def class_name(request: GPURequest, classes: Iterable[KubeObject[GPUNodeClass]]) -> str | Why:
    """Which class is meant, whether or not it exists and may buy."""
    return _name(request, {record.key.name: record for record in classes})


def implicit_class(keys: Collection[str], default_backend: str) -> GPUNodeClass | None:
    """Every provider whose key is among `keys`, those of the operator's Secret; None: there is none.

    `default_backend`: the operator's own mesh; empty: none is set, and Tailscale is used if its OAuth client is there.
    """
    providers = tuple(ProviderConfig(name=name) for name, key in DEFAULT_KEYS.items() if key in keys)
    if not providers:
        return None
    backend = default_backend or ("tailscale" if OAUTH_KEYS.issubset(keys) else "none")
    spec = GPUNodeClassSpec(providers=providers, limits=IMPLICIT_LIMITS, networking=Networking(backend=backend))
    return GPUNodeClass(metadata=ObjectMeta(name=IMPLICIT), spec=spec)


def implicit_record(node_class: GPUNodeClass, version: int) -> KubeObject[GPUNodeClass]:
    return KubeObject(key=ObjectKey("", IMPLICIT), resource_version=version, generation=version, value=node_class)


def wants_default(request: GPURequest) -> bool:
    """Neither pinned nor naming a class."""
    return request.status.node_class is None and request.spec.node_class_ref is None


def _name(request: GPURequest, known: Mapping[str, KubeObject[GPUNodeClass]]) -> str | Why:
    if request.status.node_class is not None:
        return request.status.node_class
    if request.spec.node_class_ref is not None:
        return request.spec.node_class_ref.name
    written = sorted(name for name in known if name != IMPLICIT)
    marked = [name for name in written if known[name].annotations.get(DEFAULT_ANNOTATION) == "true"]
    if len(marked) > 1:
        return Why(
            "SeveralDefaultClasses",
            f'{_listed(marked)} are all annotated {DEFAULT_ANNOTATION}: "true"; keep the annotation on one of them, or '
            "set spec.nodeClassRef.",
        )
    if marked or len(written) == 1:
        return (marked or written)[0]
    if not written:
        return IMPLICIT
    return Why(
        "NodeClassNotFound",
        f"spec.nodeClassRef is not set, and none of {_listed(written)} is the default. Set spec.nodeClassRef, or run "
        f"kubectl annotate gpunodeclass {written[0]} {DEFAULT_ANNOTATION}=true to make {written[0]} the default.",
    )


def _gone(request: GPURequest, name: str) -> Why:
    if name == IMPLICIT:
        keys = ", ".join(DEFAULT_KEYS.values())
        return Why(
            "NodeClassNotFound",
            f"No GPUNodeClass exists, and Secret {OPERATOR_SECRET} has no provider's key ({keys}): create a class, or "
            "add a key to the Secret.",
        )
    if request.status.node_class is not None:
        return Why(
            "NodeClassNotFound",
            f"GPUNodeClass {name}, with which the request was reserved, was deleted and launches no machine.",
        )
    return Why(
        "NodeClassNotFound",
        f"spec.nodeClassRef.name: GPUNodeClass {name!r} {CLASS_MISSING}",
    )


def _not_buying(name: str, record: KubeObject[GPUNodeClass]) -> Why | None:
    assert record.value is not None
    if record.deleting:
        return Why("NodeClassDeleting", f"GPUNodeClass {name} is being deleted and launches no machine.")
    if name != IMPLICIT and (unready := _unready(name, record, record.value.status.conditions)) is not None:
        return unready
    if record.value.spec.suspend:
        return Why(
            "Suspended",
            (
                f"GPUNodeClass {name} is suspended (spec.suspend) and launches no machine; tgp release class/{name} "
                "resumes it."
            ),
        )
    return None


def _unready(name: str, record: KubeObject[GPUNodeClass], conditions: Sequence[Condition]) -> Why | None:
    ready = next((each for each in conditions if each.type == "Ready"), None)
    if ready is None or ready.observed_generation != record.generation:
        return Why("NodeClassNotSeen", f"GPUNodeClass {name} was not checked yet.")
    if ready.status != "True" and ready.reason == CANNOT_BUY:
        return Why("NodeClassCannotBuy", f"GPUNodeClass {name}: {ready.message}")
    if ready.status != "True":
        return Why("NodeClassNotReady", f"GPUNodeClass {name} is not ready ({ready.reason}): {ready.message}")
    return None


def _called(name: str) -> str:
    return "The implicit class" if name == IMPLICIT else f"GPUNodeClass {name}"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - NAMED_MOST
    shown = ", ".join(names[:NAMED_MOST])
    return f"GPUNodeClasses {shown}" + (f" and {more} more" if more > 0 else "")
