"""The manifests that this release ships, from the wheel or from the source tree."""

from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

TREE = Path(__file__).parents[3]  # the repository, where the package is not installed from a wheel
RIGHTS = ("deploy", "rbac", "operator.yaml")


def operator_rights() -> Iterator[dict[str, Any]]:
    """Namespace, account, roles and bindings of the operator."""
    inside = files("tgp").joinpath(*RIGHTS)
    yield from documents(inside if inside.is_file() else TREE.joinpath(*RIGHTS))


def documents(file: Traversable) -> Iterator[dict[str, Any]]:
    yield from YAML(typ="safe", pure=True).load_all(file.read_text(encoding="utf-8"))
