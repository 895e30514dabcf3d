"""Namespaces: each has its default ServiceAccount, and one that ends takes everything in it along."""

from collections.abc import Iterable

from tgp.api.resource import NAMESPACE, SERVICE_ACCOUNT
from tgp.core.model.object_key import ObjectKey
from tgp.sim.apiserver.json_value import Json
from tgp.sim.apiserver.registry import Served
from tgp.sim.cluster.component_api import is_ending, set_condition
from tgp.sim.cluster.controller import ClusterController, StoreCommit


class Namespaces(ClusterController):
    name = "namespace-controller"

    def concerns(self, commit: StoreCommit) -> Iterable[ObjectKey]:
        if commit.served.resource == NAMESPACE:
            return (ObjectKey("", commit.obj["metadata"]["name"]),) if commit.after is not None else ()
        if commit.after is None and commit.served.namespaced:
            namespace = self.api.get(NAMESPACE, "", commit.obj["metadata"]["namespace"])
            if namespace is not None and (is_ending(namespace) or commit.served.resource == SERVICE_ACCOUNT):
                return (ObjectKey("", namespace["metadata"]["name"]),)
        return ()

    def reconcile(self, key: ObjectKey) -> float | None:
        namespace = self.api.get(NAMESPACE, *key)
        if namespace is None:
            return None
        if not is_ending(namespace):
            self._give_account(key.name)
            return None
        left = self._empty(key.name)
        now = self.api.now_text()
        self.api.edit_status(NAMESPACE, "", key.name, lambda status: _tell(status, left, now))
        if not left and namespace.get("spec", {}).get("finalizers"):
            self.api.edit(NAMESPACE, "", key.name, lambda obj: obj["spec"].update(finalizers=[]), "finalize")
        return None

    def _give_account(self, namespace: str) -> None:
        if self.api.get(SERVICE_ACCOUNT, namespace, "default") is None:
            self.api.create(SERVICE_ACCOUNT, {"metadata": {"name": "default", "namespace": namespace}})

    def _empty(self, namespace: str) -> list[str]:
        """Delete everything in it; what remains is reported by kind."""
        left: list[str] = []
        for served in self._kinds():
            for obj in self.api.all(served.resource, namespace):
                if not is_ending(obj):
                    self.api.delete(served.resource, obj)
            held = self.api.all(served.resource, namespace)
            if held:
                left.append(
                    f"{served.plural}{'.' + served.group if served.group else ''} has {len(held)} resource instances"
                )
        return left

    def _kinds(self) -> list[Served]:
        """Each namespaced kind once, whatever versions it is served in."""
        found: dict[str, Served] = {}
        for served in self.api.core.registry:
            if served.namespaced and "delete" in served.verbs:
                found.setdefault(served.storage, served)
        return list(found.values())


def _tell(status: Json, left: list[str], now: str) -> None:
    if left:
        text = "Some resources are remaining: " + ", ".join(left)
        set_condition(status, "NamespaceContentRemaining", "True", now, reason="SomeResourcesRemain", message=text)
    elif status.get("conditions"):
        text = "All content successfully removed"
        set_condition(status, "NamespaceContentRemaining", "False", now, reason="ContentRemoved", message=text)
