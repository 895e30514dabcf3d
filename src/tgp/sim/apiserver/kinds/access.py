"""Roles and bindings: checked for form, and that no user grants rights they do not hold."""

from tgp.sim.apiserver.core import Write
from tgp.sim.apiserver.json_value import Json, list_at, mapping_at, same
from tgp.sim.apiserver.kinds.strategy import Strategy
from tgp.sim.apiserver.problems import invalid_value, not_supported, required
from tgp.sim.apiserver.rbac import AccessAttempt, missing_rules
from tgp.sim.apiserver.registry import Served
from tgp.sim.apiserver.status_errors import Cause, forbidden

RBAC_GROUP = "rbac.authorization.k8s.io"


class RoleStrategy(Strategy):
    def prepare_create(self, write: Write, obj: Json) -> None:
        obj.setdefault("rules", [])
        _check_holds(write, obj, list_at(obj, "rules"))

    def prepare_update(self, write: Write, obj: Json, old: Json) -> None:
        obj.setdefault("rules", [])
        if not same(old.get("rules"), obj.get("rules")):
            _check_holds(write, obj, list_at(obj, "rules"))

    def problems(self, write: Write, obj: Json) -> list[Cause]:
        found: list[Cause] = []
        for index, rule in enumerate(list_at(obj, "rules")):
            path = f"rules[{index}]"
            if not rule.get("verbs"):
                found.append(required(f"{path}.verbs", "verbs must contain at least one value"))
            if rule.get("nonResourceURLs"):
                if write.served.namespaced:
                    why = "namespaced rules cannot apply to non-resource URLs"
                    found.append(invalid_value(f"{path}.nonResourceURLs", rule["nonResourceURLs"], why))
                continue
            if not rule.get("apiGroups"):
                found.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
            if not rule.get("resources"):
                found.append(required(f"{path}.resources", "resource rules must supply at least one resource"))
        return found

    def update_problems(self, write: Write, obj: Json, old: Json) -> list[Cause]:
        return self.problems(write, obj)


class BindingStrategy(Strategy):
    def default(self, served: Served, obj: Json) -> None:
        reference = obj.get("roleRef")
        if isinstance(reference, dict):
            reference.setdefault("apiGroup", RBAC_GROUP)
        for subject in list_at(obj, "subjects"):
            if subject.get("kind") in {"User", "Group"}:
                subject.setdefault("apiGroup", RBAC_GROUP)

    def prepare_create(self, write: Write, obj: Json) -> None:
        _check_may_bind(write, obj)

    def prepare_update(self, write: Write, obj: Json, old: Json) -> None:
        if not same(old.get("subjects"), obj.get("subjects")):
            _check_may_bind(write, obj)

    def problems(self, write: Write, obj: Json) -> list[Cause]:
        reference = mapping_at(obj, "roleRef")
        found: list[Cause] = []
        allowed = ("Role", "ClusterRole") if write.served.namespaced else ("ClusterRole",)
        if reference.get("kind") not in allowed:
            found.append(not_supported("roleRef.kind", reference.get("kind", ""), allowed))
        if not reference.get("name"):
            found.append(required("roleRef.name"))
        for index, subject in enumerate(list_at(obj, "subjects")):
            if not subject.get("name"):
                found.append(required(f"subjects[{index}].name"))
            if subject.get("kind") not in {"User", "Group", "ServiceAccount"}:
                words = ("ServiceAccount", "User", "Group")
                found.append(not_supported(f"subjects[{index}].kind", subject.get("kind", ""), words))
            if subject.get("kind") == "ServiceAccount" and not subject.get("namespace"):
                found.append(required(f"subjects[{index}].namespace"))
        return found

    def update_problems(self, write: Write, obj: Json, old: Json) -> list[Cause]:
        found = self.problems(write, obj)
        if not same(old.get("roleRef"), obj.get("roleRef")):
            found.append(invalid_value("roleRef", obj.get("roleRef"), "cannot change roleRef"))
        return found


def _check_holds(write: Write, obj: Json, rules: list[Json]) -> None:
    """A user cannot write a role that grants more than they hold, unless they may `escalate` it."""
    name, namespace = obj["metadata"].get("name", ""), obj["metadata"].get("namespace", "")
    attempt = AccessAttempt("escalate", RBAC_GROUP, write.served.plural, "", name, namespace)
    _refuse_if_lacking(write, name, missing_rules(write.core, write.ask.user, rules, attempt))


def _check_may_bind(write: Write, obj: Json) -> None:
    """A user cannot bind a role that grants more than they hold, unless they may `bind` it."""
    reference = mapping_at(obj, "roleRef")
    namespace, role = obj["metadata"].get("namespace", ""), str(reference.get("name", ""))
    plural = "clusterroles" if reference.get("kind") == "ClusterRole" else "roles"
    found = write.core.store.get(f"{plural}.{RBAC_GROUP}", namespace if plural == "roles" else "", role)
    rules = list_at(found.obj, "rules") if found else []
    attempt = AccessAttempt("bind", RBAC_GROUP, plural, "", role, namespace)
    name = obj["metadata"].get("name", "")
    _refuse_if_lacking(write, name, missing_rules(write.core, write.ask.user, rules, attempt))


def _refuse_if_lacking(write: Write, name: str, lacking: list[str]) -> None:
    if not lacking:
        return
    user = write.ask.user
    groups = " ".join(f'"{group}"' for group in user.groups)
    text = f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:\n'
    raise forbidden(write.served.group, write.served.plural, name, text + "\n".join(lacking))
