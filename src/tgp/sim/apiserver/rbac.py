"""Role-based access, evaluated from the stored roles and bindings each time it is asked."""

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from tgp.sim.apiserver.core import Core
from tgp.sim.apiserver.identity import ApiUser
from tgp.sim.apiserver.json_value import Json, list_at, mapping_at
from tgp.sim.apiserver.selectors import from_label_selector
from tgp.sim.apiserver.status_errors import Failure, forbidden

GROUP = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class AccessAttempt:
    """What a user wants to do: to a resource, or to a path when `path` is set."""

    verb: str
    group: str = ""
    plural: str = ""
    subresource: str = ""
    name: str = ""
    namespace: str = ""
    path: str = ""

    @property
    def resource(self) -> str:
        return f"{self.plural}/{self.subresource}" if self.subresource else self.plural


@dataclass(frozen=True, slots=True)
class AccessVerdict:
    allowed: bool
    reason: str = ""


ALLOWED = AccessVerdict(allowed=True)


def authorize(core: Core, user: ApiUser, attempt: AccessAttempt) -> AccessVerdict:
    if user.is_master:
        return ALLOWED
    for grant in grants(core, user, attempt.namespace):
        if any(rule_allows(rule, attempt) for rule in grant.rules):
            return AccessVerdict(allowed=True, reason=f"RBAC: allowed by {grant.said}")
    return AccessVerdict(allowed=False)


def refusal(user: ApiUser, attempt: AccessAttempt) -> Failure:
    """The 403 for a user without the right."""
    if attempt.path:
        why = f'User "{user.name}" cannot {attempt.verb} path "{attempt.path}"'
        return Failure(403, "Forbidden", f"forbidden: {why}", {})
    where = f'in the namespace "{attempt.namespace}"' if attempt.namespace else "at the cluster scope"
    why = (
        f'User "{user.name}" cannot {attempt.verb} resource "{attempt.resource}" in API group "{attempt.group}" {where}'
    )
    return forbidden(attempt.group, attempt.plural, attempt.name, why)


@dataclass(frozen=True, slots=True)
class RbacGrant:
    rules: list[Json]
    said: str  # for the reason


def grants(core: Core, user: ApiUser, namespace: str) -> Iterator[RbacGrant]:
    """Every role bound to the user, cluster-wide first, then in the namespace."""
    for _, record in core.store.kind_storage(f"clusterrolebindings.{GROUP}").range(""):
        subject = _subject(record.obj, user, "")
        if subject:
            yield _grant(core, record.obj, "", subject)
    if namespace:
        for _, record in core.store.kind_storage(f"rolebindings.{GROUP}").range(namespace):
            subject = _subject(record.obj, user, namespace)
            if subject:
                yield _grant(core, record.obj, namespace, subject)


def _grant(core: Core, binding: Json, namespace: str, subject: str) -> RbacGrant:
    reference = mapping_at(binding, "roleRef")
    kind, role = reference.get("kind", ""), str(reference.get("name", ""))
    if kind == "ClusterRole":
        found = core.store.get(f"clusterroles.{GROUP}", "", role)
    else:
        found = core.store.get(f"roles.{GROUP}", namespace, role)
    name = binding["metadata"]["name"]
    label = f'{binding["kind"]} "{name}/{namespace}"' if namespace else f'{binding["kind"]} "{name}"'
    said = f'{label} of {kind} "{role}" to {subject}'
    return RbacGrant(_rules(core, found.obj) if found else [], said)


def _rules(core: Core, role: Json) -> list[Json]:
    """A role's rules; one that aggregates has those of every ClusterRole its selectors find."""
    selectors = list_at(role, "aggregationRule", "clusterRoleSelectors")
    if not selectors:
        return list_at(role, "rules")
    chosen = [from_label_selector(selector) for selector in selectors]
    rules = list(list_at(role, "rules"))
    for _, record in core.store.kind_storage(f"clusterroles.{GROUP}").range(""):
        labels = mapping_at(record.obj, "metadata", "labels")
        if any(selector.matches(labels) for selector in chosen):
            rules += list_at(record.obj, "rules")
    return rules


def _subject(binding: Json, user: ApiUser, namespace: str) -> str:
    """The subject of the binding that is this user; empty if none is."""
    for subject in list_at(binding, "subjects"):
        name = subject.get("name", "")
        match subject.get("kind"):
            case "User" if name == user.name:
                return f'User "{name}"'
            case "Group" if name in user.groups:
                return f'Group "{name}"'
            case "ServiceAccount":
                where = subject.get("namespace") or namespace
                if user.name == f"system:serviceaccount:{where}:{name}":
                    return f'ServiceAccount "{name}/{where}"'
    return ""


def rule_allows(rule: Json, attempt: AccessAttempt) -> bool:
    verbs = rule.get("verbs") or ()
    if "*" not in verbs and attempt.verb not in verbs:
        return False
    if attempt.path:
        return any(_path_matches(str(url), attempt.path) for url in rule.get("nonResourceURLs") or ())
    groups = rule.get("apiGroups") or ()
    if "*" not in groups and attempt.group not in groups:
        return False
    if not _resource_matches(rule.get("resources") or (), attempt):
        return False
    names = rule.get("resourceNames") or ()
    return not names or attempt.name in names


def _path_matches(url: str, path: str) -> bool:
    if url.endswith("*"):
        return path.startswith(url.removesuffix("*"))
    return url == path


def _resource_matches(resources: list[str] | tuple[str, ...], attempt: AccessAttempt) -> bool:
    if "*" in resources or attempt.resource in resources:
        return True
    return bool(attempt.subresource) and f"*/{attempt.subresource}" in resources


def missing_rules(core: Core, user: ApiUser, rules: list[Json], exempt: AccessAttempt) -> list[str]:
    """Those of `rules` the user could not use themselves, as text; none for a user who may do `exempt`."""
    if user.is_master or authorize(core, user, exempt).allowed:
        return []
    held = [rule for grant in grants(core, user, exempt.namespace) for rule in grant.rules]
    return [_shown(single) for rule in rules for single in _singles(rule) if not _covered(held, single)]


def _singles(rule: Json) -> Iterator[Json]:
    """A rule broken into one verb, one group, one resource at a time."""
    for verb in rule.get("verbs") or ():
        for url in rule.get("nonResourceURLs") or ():
            yield {"verbs": [verb], "nonResourceURLs": [url]}
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                single: Json = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
                if rule.get("resourceNames"):
                    single["resourceNames"] = rule["resourceNames"]
                yield single


def _covered(held: list[Json], single: Json) -> bool:
    if "nonResourceURLs" in single:
        attempt = AccessAttempt(single["verbs"][0], path=single["nonResourceURLs"][0])
        return any(rule_allows(rule, attempt) for rule in held)
    plural, _, subresource = single["resources"][0].partition("/")
    for name in single.get("resourceNames") or [""]:
        attempt = AccessAttempt(single["verbs"][0], single["apiGroups"][0], plural, subresource, name)
        if not any(rule_allows(rule, attempt) for rule in held):
            return False
    return True


def _shown(single: Json) -> str:
    parts = []
    for label, key in (
        ("APIGroups", "apiGroups"),
        ("Resources", "resources"),
        ("ResourceNames", "resourceNames"),
        ("NonResourceURLs", "nonResourceURLs"),
        ("Verbs", "verbs"),
    ):
        if key in single:
            words = " ".join(msgspec.json.encode(value).decode() for value in single[key])
            parts.append(f"{label}:[{words}]")
    return "{" + ", ".join(parts) + "}"
