"""The manifests that this release ships, from the wheel or from the source tree."""

import json
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

TREE = Path(__file__).parents[3]  # the repository, where the package is not installed from a wheel
RIGHTS = files("tgp.services") / "operator_rights.json"  # made from deploy/rbac by `make manifests`
BUDGET_POLICIES = ("deploy", "policy", "budgets.yaml")


def operator_rights() -> Iterator[dict[str, Any]]:
    """Namespace, account, roles and bindings of the operator.

    Read at every start: as JSON, so that the operator does not load a YAML parser for it.
    """
    yield from json.loads(RIGHTS.read_text(encoding="utf-8"))


def budget_policies() -> Iterator[dict[str, Any]]:
    """The admission policies of budgets, and their bindings."""
    return documents(_file(BUDGET_POLICIES))


def _file(parts: tuple[str, ...]) -> Traversable:
    inside = files("tgp").joinpath(*parts)
    return inside if inside.is_file() else TREE.joinpath(*parts)


def documents(file: Traversable) -> Iterator[dict[str, Any]]:
    from ruamel.yaml import YAML  # here: it takes two megabytes

    yield from YAML(typ="safe", pure=True).load_all(file.read_text(encoding="utf-8"))
