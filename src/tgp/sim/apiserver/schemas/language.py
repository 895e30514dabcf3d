"""The little language in which the built-in kinds are described, and its reader.

A file holds paragraphs. A paragraph that begins with `package` says where the types after it live::

    package core = io.k8s.api.core.v1 (v1)

Every other paragraph is one type: its name, flags, and perhaps a sentence; then fields, several on a line where they
carry no sentence of their own::

    Container -- One program of a pod.
      image string -- The image to run.
      ports [ContainerPort] map=containerPort,protocol patch=merge:containerPort; tty bool

`name!` is required. A type is a scalar, a type of the same package, `package.Type`, `[items]` or `{values}`. Options:
`atomic`, `granular`, `set`, `map=KEYS` (list and map types), `patch=STRATEGY:KEY` (strategic merge), `default=VALUE`,
`enum=A|B` (of a list or map: of its items; a blank is written `_`). The flag `kind` makes the type an object with
apiVersion, kind and metadata, `object` one without known fields; a type with neither fields nor flag is any value.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

META = "io.k8s.apimachinery.pkg.apis.meta.v1"
REF = "#/components/schemas/"

_SCALARS: Mapping[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "bytes": {"type": "string", "format": "byte"},
    "time": {"type": "string", "format": "date-time"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "double": {"type": "number", "format": "double"},
    "object": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}

# Types that are written as one value, and types that every package speaks of by their bare name.
SIMPLE_TYPES: Mapping[str, dict[str, Any]] = {
    f"{META}.Time": {"type": "string", "format": "date-time", "description": "A moment, RFC 3339, in whole seconds."},
    f"{META}.MicroTime": {
        "type": "string",
        "format": "date-time",
        "description": "A moment, RFC 3339, with microseconds.",
    },
    f"{META}.FieldsV1": {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "description": "A set of fields as a trie of `f:name`, `k:{keys}`, `v:value` and `i:index`.",
    },
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {
        "oneOf": [{"type": "string"}, {"type": "number"}],
        "description": "An amount with a suffix, such as 500m, 2Gi or 4.",
    },
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {
        "oneOf": [{"type": "integer"}, {"type": "string"}],
        "format": "int-or-string",
        "description": "A number, or a text such as a percentage or a port's name.",
    },
    "io.k8s.apimachinery.pkg.runtime.RawExtension": {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "description": "An object of any kind, embedded as it is.",
    },
}
_BARE_NAMES: Mapping[str, str] = {name.rpartition(".")[2]: name for name in SIMPLE_TYPES} | {
    name: f"{META}.{name}" for name in ("ObjectMeta", "ListMeta", "LabelSelector", "Condition", "DeleteOptions")
}


class BadDescription(Exception):
    """A description file does not follow the language: our own mistake, named by its line."""


@dataclass(slots=True)
class Library:
    """All types by their full name, in the form OpenAPI wants: references stand as `$ref`."""

    definitions: dict[str, dict[str, Any]] = field(default_factory=dict)
    kinds: dict[tuple[str, str, str], str] = field(default_factory=dict)  # group, version, kind → full name
    packages: dict[str, str] = field(default_factory=dict)  # short name → full name

    def read(self, text: str) -> None:
        """Add one file's types."""
        short, group, version = "", "", ""
        for paragraph in _paragraphs(text):
            if paragraph[0].startswith("package "):
                short, full, group, version = _package(paragraph[0])
                self.packages[short] = full
            else:
                self._add(_Package(short, self.packages[short], group, version), paragraph)

    def check(self) -> None:
        """Every reference leads somewhere; call it when all files are read."""
        for name, schema in self.definitions.items():
            for target in references(schema):
                if target not in self.definitions:
                    raise BadDescription(f"{name} refers to {target}, which has no description")

    def _add(self, package: "_Package", paragraph: list[str]) -> None:
        head, _, doc = paragraph[0].partition(" -- ")
        name, *flags = head.split()
        full = f"{package.full}.{name}"
        schema: dict[str, Any] = {"description": doc} if doc else {}
        fields = [one for line in paragraph[1:] for one in _fields(line)]
        if fields or "kind" in flags:
            schema |= {"type": "object", "properties": {}}
        elif "object" in flags:
            schema |= {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        else:
            schema["x-kubernetes-preserve-unknown-fields"] = True  # any value, such as a JSON default
        if "kind" in flags:
            schema["properties"] = _type_meta()
            schema["x-kubernetes-group-version-kind"] = [
                {"group": package.group, "version": package.version, "kind": name}
            ]
            self.kinds[(package.group, package.version, name)] = full
        if "atomic" in flags:
            schema["x-kubernetes-map-type"] = "atomic"
        required = []
        for text in fields:
            key, needed, value = self._field(package, text)
            schema["properties"][key] = value
            required += [key] if needed else []
        if required:
            schema["required"] = required
        self.definitions[full] = schema

    def _field(self, package: "_Package", text: str) -> tuple[str, bool, dict[str, Any]]:
        spec, _, doc = text.partition(" -- ")
        words = spec.split()
        if len(words) < 2:
            raise BadDescription(f"a field needs a name and a type: {text!r}")
        name, kind, *options = words
        schema = self._type(package, kind)
        extra: dict[str, Any] = {"description": doc} if doc else {}
        for option in options:
            if option.startswith("enum="):
                inner = {"[": "items", "{": "additionalProperties"}.get(kind[0])
                (schema[inner] if inner else extra)["enum"] = _choices(option)
            else:
                extra |= _option(option, is_list=kind.startswith("[") or kind == "bytes")
        if "$ref" in schema and extra:
            schema = {"allOf": [schema]}  # a reference may have no siblings in OpenAPI 3.0
        return name.removesuffix("!"), name.endswith("!"), schema | extra

    def _type(self, package: "_Package", text: str) -> dict[str, Any]:
        if text.startswith("["):
            return {"type": "array", "items": self._type(package, text[1:-1])}
        if text.startswith("{"):
            return {"type": "object", "additionalProperties": self._type(package, text[1:-1])}
        if text in _SCALARS:
            return dict(_SCALARS[text])
        if text in _BARE_NAMES:
            return {"$ref": REF + _BARE_NAMES[text]}
        other, dot, name = text.partition(".")
        if dot and other not in self.packages:
            raise BadDescription(f"no package is called {other!r}")
        return {"$ref": f"{REF}{self.packages[other] if dot else package.full}.{name if dot else text}"}


@dataclass(frozen=True, slots=True)
class _Package:
    short: str
    full: str
    group: str
    version: str


def references(schema: Any) -> Iterator[str]:
    """The full names of the types a schema mentions directly. A *property* called `$ref` is no reference."""
    if isinstance(schema, list):
        for item in schema:
            yield from references(item)
    elif isinstance(schema, dict):
        ref = schema.get("$ref")
        if isinstance(ref, str):
            yield ref.removeprefix(REF)
        for value in schema.values():
            yield from references(value)


def _paragraphs(text: str) -> Iterator[list[str]]:
    block: list[str] = []
    for raw in [*text.splitlines(), ""]:
        line = raw.rstrip()
        if line.startswith("#"):
            continue
        if line:
            block.append(line)
        elif block:
            yield block
            block = []


def _package(line: str) -> tuple[str, str, str, str]:
    _, short, _, full, where = line.split()
    group, _, version = where.strip("()").rpartition("/")
    return short, full, group, version


def _fields(line: str) -> list[str]:
    """A line with a sentence holds one field; others may hold several."""
    return [line.strip()] if " -- " in line else [part.strip() for part in line.split(";")]


def _option(option: str, *, is_list: bool) -> dict[str, Any]:
    word, _, value = option.partition("=")
    match word:
        case "atomic" | "granular":
            return {"x-kubernetes-list-type" if is_list else "x-kubernetes-map-type": word}
        case "set":
            return {"x-kubernetes-list-type": "set"}
        case "map":
            return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": value.split(",")}
        case "patch":
            strategy, _, key = value.partition(":")
            chosen = {"x-kubernetes-patch-strategy": strategy}
            return chosen | ({"x-kubernetes-patch-merge-key": key} if key else {})
        case "default":
            return {"default": value}
        case _:
            raise BadDescription(f"no option is called {option!r}")


def _choices(option: str) -> list[str]:
    return [choice.replace("_", " ") for choice in option.removeprefix("enum=").split("|")]


def _type_meta() -> dict[str, Any]:
    return {
        "apiVersion": {"type": "string", "description": "The group and version this object is written in."},
        "kind": {"type": "string", "description": "What this object is."},
        "metadata": {
            "allOf": [{"$ref": f"{REF}{META}.ObjectMeta"}],
            "description": "Name, labels, owners: what every object carries.",
        },
    }
