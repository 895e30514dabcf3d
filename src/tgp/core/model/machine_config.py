"""A Talos machine config as it is sent, and findings about one."""

from dataclasses import dataclass, field
from enum import StrEnum

import msgspec


class Severity(StrEnum):
    ERROR = "error"  # Talos refuses it, or the node never joins
    WARNING = "warning"  # it works, but is probably not intended
    UNCHECKED = "unchecked"  # passed through: only Talos can check it, once the machine runs


@dataclass(frozen=True, slots=True, order=True)
class ConfigFinding:
    """One thing that is wrong with a config or a template. Never quotes a value: it may be a secret."""

    line: int  # in the text it was found in; 0: nowhere in particular
    path: str  # machine.files[0].path
    message: str  # what is wrong, and what would be right
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        return f"{where}{self.path}: {self.message}" if self.path else f"{where}{self.message}"


class Conversion(msgspec.Struct, frozen=True, order=True):
    """One thing in an old template that was replaced by what really boots."""

    line: int
    path: str
    message: str  # what it was, and what it became

    def __str__(self) -> str:
        return f"line {self.line}: {self.path}: {self.message}" if self.line else f"{self.path}: {self.message}"


class TemplateRefused(Exception):
    """No config can be made of it; `findings` say why, the first of them first."""

    def __init__(self, findings: tuple[ConfigFinding, ...]) -> None:
        more = f"; and {len(findings) - 1} more" if len(findings) > 1 else ""
        super().__init__(f"{findings[0]}{more}")
        self.findings = findings


@dataclass(frozen=True, slots=True)
class Rendered:
    """Ready to be handed to a machine. It holds join secrets, so it shows nothing."""

    text: str = field(repr=False)  # a YAML stream, one document after the other
    conversions: tuple[Conversion, ...] = ()
    warnings: tuple[ConfigFinding, ...] = ()
