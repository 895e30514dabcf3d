"""Templates: what a machine boots from, and which machine types they support. This is compatibility, not stock."""

import re
from dataclasses import dataclass
from typing import Any

from tgp.adapters.clouds.parse import ParseError, identifier

TEMPLATES = "/v1/os-templates"
VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})")


@dataclass(frozen=True, slots=True)
class Template:
    id: str
    title: str
    types: frozenset[str]  # only looked up, never iterated

    @property
    def version(self) -> tuple[int, int]:
        found = VERSION.search(self.title)
        return (int(found[1]), int(found[2])) if found else (0, 0)

    @property
    def is_ubuntu(self) -> bool:
        return "ubuntu" in self.title.casefold()


def read(rows: tuple[Any, ...]) -> tuple[Template, ...]:
    """The readable ones: a machine cannot be started from an unreadable one."""
    return tuple(template for row in rows if (template := _template(row)) is not None)


def best_for(machine_type: str, templates: tuple[Template, ...], chosen: str) -> str:
    """The template to start a machine of that type from; empty: none matches.

    The class's own choice wins. It may be a custom template, whose compatibility is not listed. Otherwise the
    newest Ubuntu: a takeover needs a Linux with a shell.
    """
    if chosen:
        listed = next((each for each in templates if each.id == chosen), None)
        return chosen if listed is None or machine_type in listed.types else ""
    fitting = [each for each in templates if each.is_ubuntu and machine_type in each.types]
    return min(fitting, key=lambda each: (-each.version[0], -each.version[1], each.id)).id if fitting else ""


def _template(row: Any) -> Template | None:
    if not isinstance(row, dict) or not isinstance(types := row.get("availableMachineTypes"), list):
        return None
    words = [row[name] for name in ("operatingSystemLabel", "name") if isinstance(row.get(name), str)]
    fitting = [each for each in types if isinstance(each, dict) and each.get("isAvailable") is not False]
    names = frozenset(name for each in fitting if isinstance(name := each.get("machineTypeLabel"), str))
    try:
        return Template(identifier(row.get("id")), " ".join(words)[:256], names)
    except ParseError:
        return None
