"""Namespaced objects need a namespace that is there and not ending."""

from tgp.sim.apiserver.core import Core
from tgp.sim.apiserver.json_value import Json, at
from tgp.sim.apiserver.registry import Served
from tgp.sim.apiserver.status_errors import Cause, Failure, forbidden, not_found

IMMORTAL = ("default", "kube-system", "kube-public")


def check_namespace_accepts(core: Core, served: Served, obj: Json) -> None:
    if not served.namespaced:
        return
    namespace = obj["metadata"]["namespace"]
    found = core.store.get("namespaces", "", namespace)
    if found is None:
        raise not_found("", "namespaces", namespace)
    if "deletionTimestamp" in found.obj["metadata"] or at(found.obj, "status", "phase") == "Terminating":
        raise terminating(served, obj["metadata"].get("name", ""), namespace)


def terminating(served: Served, name: str, namespace: str) -> Failure:
    cause = Cause("NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace")
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    return forbidden(served.group, served.plural, name, why, [cause])


def check_may_be_deleted(served: Served, name: str) -> None:
    if served.group == "" and served.kind == "Namespace" and name in IMMORTAL:
        raise forbidden("", "namespaces", name, "this namespace may not be deleted")
