"""Compares Kubernetes roles: what one list of rules grants that another does not."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

Rule: TypeAlias = Mapping[str, Any]
ANY = "*"
APPLY_RIGHTS = "kubectl apply -f deploy/rights.yaml"  # the roles that this release ships


@dataclass(frozen=True, slots=True)
class KubeRight:
    """One verb on one resource; `name` for one object only."""

    verb: str
    group: str
    resource: str
    name: str

    @property
    def text(self) -> str:
        """As `verb resource.group`, with the name if there is one."""
        group = f".{self.group}" if self.group else ""
        return f"{self.verb} {self.resource}{group}{f' {self.name}' if self.name else ''}"

    def named(self, name: str) -> "KubeRight":
        return replace(self, name=name)


def missing_rights(held: Sequence[Rule], wanted: Sequence[Rule]) -> tuple[str, ...]:
    """Each as `verb resource.group`, in the order of `wanted`; a right is held when one rule grants all of it."""
    return tuple(dict.fromkeys(right.text for right in single_rights(wanted) if not grants_all(held, right)))


def single_rights(rules: Sequence[Rule]) -> Iterator[KubeRight]:
    for rule in rules:
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                for verb in rule.get("verbs") or ():
                    for name in rule.get("resourceNames") or ("",):
                        yield KubeRight(verb, group, resource, name)


def grants_all(held: Sequence[Rule], right: KubeRight) -> bool:
    return any(_grants(rule, right) for rule in held)


def _grants(rule: Rule, right: KubeRight) -> bool:
    names = rule.get("resourceNames") or ()
    return (
        _among(right.verb, rule.get("verbs"))
        and _among(right.group, rule.get("apiGroups"))
        and _among(right.resource, rule.get("resources"))
        and (not names or right.name in names)
    )


def _among(value: str, listed: Sequence[str] | None) -> bool:
    return value in (listed or ()) or ANY in (listed or ())
