"""One field of a YAML document with its name, so that errors can name it."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec


class ConfigInvalid(Exception):
    """The configuration cannot be used. The text names the file and the field, and never a value that may be secret."""


class ClusterNotConfigured(ConfigInvalid):
    """Nothing names a cluster."""


class ConfigField(msgspec.Struct, frozen=True):
    value: Any
    file: str
    name: str  # users[2].user.exec; empty: the whole document

    @property
    def where(self) -> str:
        return f"{self.file}: {self.name}" if self.name else self.file

    def invalid(self, why: str) -> ConfigInvalid:
        return ConfigInvalid(f"{self.where}: {why}")

    def get(self, name: str) -> "ConfigField":
        """The field of that name; its value is None if missing."""
        mapping = self._mapping()
        return ConfigField(mapping.get(name), self.file, f"{self.name}.{name}" if self.name else name)

    def text(self) -> str:
        """Empty if missing."""
        if self.value is None:
            return ""
        if not isinstance(self.value, str):
            raise self.invalid(f"must be a string, not {_kind(self.value)}; put it in quotes")
        return self.value

    def flag(self) -> bool:
        if self.value is None:
            return False
        if not isinstance(self.value, bool):
            raise self.invalid(f"must be true or false, not {_kind(self.value)}")
        return self.value

    def items(self) -> Iterator["ConfigField"]:
        if self.value is None:
            return
        if not isinstance(self.value, list):
            raise self.invalid(f"must be a list, not {_kind(self.value)}")
        for index, item in enumerate(self.value):
            yield ConfigField(item, self.file, f"{self.name}[{index}]")

    def entries(self) -> Iterator[tuple[str, "ConfigField"]]:
        for name in self._mapping():
            yield str(name), self.get(name)

    def _mapping(self) -> dict[Any, Any]:
        if self.value is None:
            return {}
        if not isinstance(self.value, dict):
            raise self.invalid(f"must be a mapping, not {_kind(self.value)}")
        return self.value


def _kind(value: Any) -> str:
    names = {dict: "a mapping", list: "a list", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(value), type(value).__name__)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("has a duplicate key")
    return found


def parse_yaml(content: bytes, file: str) -> Any:
    """The document; an error names the line, not its content."""
    with suppress(ValueError, RecursionError):  # JSON is YAML, too: what is wrong with it is said below
        return json.loads(content.decode(), object_pairs_hook=_distinct)
    # Here: with it come 2 MB, and 60 ms.
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        return YAML(typ="safe", pure=True).load(content.decode())
    except UnicodeDecodeError:
        raise ConfigInvalid(f"{file}: is not UTF-8 text") from None
    except MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}" if error.problem_mark else "unknown line"
        raise ConfigInvalid(f"{file}: is not YAML, {line}") from None
    except (YAMLError, ValueError, RecursionError):  # ValueError: an invalid date
        raise ConfigInvalid(f"{file}: is not YAML") from None
