"""Compares Kubernetes roles: what one list of rules grants that another does not."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

Rule: TypeAlias = Mapping[str, Any]
ANY = "*"


def missing_rights(held: Sequence[Rule], wanted: Sequence[Rule]) -> tuple[str, ...]:
    """Each as `verb resource.group`, in the order of `wanted`; a right is held when one rule grants all of it."""
    return tuple(
        dict.fromkeys(
            f"{verb} {resource}{f'.{group}' if group else ''}{f' {name}' if name else ''}"
            for verb, group, resource, name in _singles(wanted)
            if not any(_grants(rule, verb, group, resource, name) for rule in held)
        )
    )


def _singles(rules: Sequence[Rule]) -> Iterator[tuple[str, str, str, str]]:
    for rule in rules:
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                for verb in rule.get("verbs") or ():
                    for name in rule.get("resourceNames") or ("",):
                        yield verb, group, resource, name


def _grants(rule: Rule, verb: str, group: str, resource: str, name: str) -> bool:
    names = rule.get("resourceNames") or ()
    return (
        _among(verb, rule.get("verbs"))
        and _among(group, rule.get("apiGroups"))
        and _among(resource, rule.get("resources"))
        and (not names or name in names)
    )


def _among(value: str, listed: Sequence[str] | None) -> bool:
    return value in (listed or ()) or ANY in (listed or ())
