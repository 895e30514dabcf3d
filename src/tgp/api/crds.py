"""The CustomResourceDefinitions, made from the types. `python -m tgp.api.crds DIRECTORY` writes them out."""

import hashlib
import io
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tgp.api.kinds import KINDS, Kind, PrinterColumn
from tgp.api.schema import object_schema

YAML_WIDTH = 120
NUMBER_LABEL = "tgp.io/kinds"  # on every definition: a cluster does not go back to a smaller number
ALLOW_OLDER = "tgp.io/allow-older"  # an annotation on a definition: the way past
NUMBER = 3  # of the kinds. Raise it when a test says that they changed, and note the new digest
DIGEST = "84d765683bb1cac9"  # of their schemas with this number


def crd(kind: Kind) -> dict[str, Any]:
    """One definition as it is applied. Key order is for readers; nothing depends on it."""
    where = kind.resource
    singular = where.kind.lower()
    names: dict[str, Any] = {
        "kind": where.kind,
        "listKind": f"{where.kind}List",
        "plural": where.plural,
        "singular": singular,
    }
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    if kind.categories:
        names["categories"] = list(kind.categories)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{where.plural}.{where.group}",
            "labels": {
                "app.kubernetes.io/name": "tgp-operator",
                "app.kubernetes.io/part-of": "tgp",
                NUMBER_LABEL: str(NUMBER),
            },
        },
        "spec": {
            "group": where.group,
            "names": names,
            "scope": "Namespaced" if where.namespaced else "Cluster",
            "versions": [
                {
                    "name": where.version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [_column(column) for column in kind.columns],
                    "schema": {"openAPIV3Schema": object_schema(kind.type)},
                }
            ],
        },
    }


def crds(*, legacy: bool = False) -> list[dict[str, Any]]:
    """All definitions, in a fixed order; the legacy one only where it is asked for."""
    return [crd(kind) for kind in KINDS if legacy or not kind.optional]


def digest() -> str:
    """Of everything that the API server judges and stores by; descriptions may change as they like."""
    specs = [_undescribed(each["spec"]) for each in crds(legacy=True)]
    return hashlib.sha256(json.dumps(specs, sort_keys=True).encode()).hexdigest()[:16]


def _undescribed(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _undescribed(below)
            for key, below in value.items()
            if not (key == "description" and isinstance(below, str))
        }
    return [_undescribed(item) for item in value] if isinstance(value, list) else value


def number_of(definition: Mapping[str, Any]) -> int:
    """0: it has none, as before there were numbers."""
    written = (definition["metadata"].get("labels") or {}).get(NUMBER_LABEL, "")
    return int(written) if written.isascii() and written.isdigit() else 0


def file_name(kind: Kind) -> str:
    """Optional kinds are in a subdirectory: `kubectl apply -f deploy/crds` skips them."""
    return f"{'legacy/' if kind.optional else ''}{kind.resource.group}_{kind.resource.plural}.yaml"


def as_yaml(*documents: Mapping[str, Any]) -> str:
    """YAML 1.2 that also reads alike as 1.1, one document after another, in the order of the keys."""
    from ruamel.yaml import YAML
    from ruamel.yaml.representer import SafeRepresenter

    class Careful(SafeRepresenter):
        """kubectl still reads YAML 1.1, where a bare `Off` is false."""

        def represent_str(self, data: str) -> Any:
            style = "'" if data.lower() in BOOLEANS_OF_YAML_1_1 else None
            return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)

    Careful.add_representer(str, Careful.represent_str)
    yaml = YAML(typ="safe", pure=True)
    yaml.Representer = Careful
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # ruamel annotates it as None
    yaml.width = YAML_WIDTH
    yaml.explicit_start = True
    text = io.StringIO()
    yaml.dump_all(documents, text)
    return text.getvalue()


BOOLEANS_OF_YAML_1_1 = frozenset({"y", "n", "yes", "no", "on", "off"})


def _column(column: PrinterColumn) -> dict[str, Any]:
    written: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.priority:
        written["priority"] = column.priority
    if column.doc:
        written["description"] = column.doc
    return written


def write(directory: Path) -> list[Path]:
    """One file per kind."""
    paths = []
    for kind in KINDS:
        path = directory / file_name(kind)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(as_yaml(crd(kind)), encoding="utf-8")
        paths.append(path)
    return paths


if __name__ == "__main__":
    for written in write(Path(sys.argv[1] if len(sys.argv) > 1 else "deploy/crds")):
        sys.stdout.write(f"{written}\n")
