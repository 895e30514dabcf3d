"""The manifests that this release ships, from the wheel or from the source tree."""

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

# Written by `make manifests` from the chart's templates. As JSON: the operator reads its rights at every start, and
# does not load a YAML parser for it.
OPERATOR_RIGHTS = "operator_rights.json"
BUDGET_POLICIES = "budget_policies.json"


def operator_rights() -> Iterator[dict[str, Any]]:
    """Namespace, account, roles and bindings of the operator."""
    yield from json.loads(_text(OPERATOR_RIGHTS))


def budget_policies() -> Iterator[dict[str, Any]]:
    """The admission policies of budgets, and their bindings."""
    yield from json.loads(_text(BUDGET_POLICIES))


def _text(name: str) -> str:
    return (files("tgp.services") / name).read_text(encoding="utf-8")


def documents(text: str) -> Iterator[dict[str, Any]]:
    from ruamel.yaml import YAML  # here: it takes two megabytes

    yield from YAML(typ="safe", pure=True).load_all(text)
