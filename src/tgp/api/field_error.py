"""What is wrong with an object, field by field, as the API server phrases it.

A `FieldError` becomes one entry of `status.details.causes` in a refusal, and one line on a user's terminal.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """The kinds of refusal the API server knows; the value is what stands in a Status's causes."""

    REQUIRED = "FieldValueRequired"
    INVALID = "FieldValueInvalid"
    TYPE_INVALID = "FieldValueTypeInvalid"
    UNSUPPORTED = "FieldValueNotSupported"
    DUPLICATE = "FieldValueDuplicate"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"


_SPOKEN = {
    Reason.REQUIRED: "Required value",
    Reason.INVALID: "Invalid value",
    Reason.TYPE_INVALID: "Invalid value",
    Reason.UNSUPPORTED: "Unsupported value",
    Reason.DUPLICATE: "Duplicate value",
    Reason.FORBIDDEN: "Forbidden",
    Reason.TOO_LONG: "Too long",
    Reason.TOO_MANY: "Too many",
}

# With these the API server does not go on to the CEL rules: they may rely on what was just found to be missing.
_BLOCKING = frozenset({Reason.REQUIRED, Reason.TYPE_INVALID, Reason.UNSUPPORTED, Reason.TOO_LONG, Reason.TOO_MANY})

_WITHOUT_VALUE = frozenset({Reason.REQUIRED, Reason.FORBIDDEN, Reason.TOO_LONG, Reason.TOO_MANY})


@dataclass(frozen=True, slots=True)
class FieldError:
    path: str  # "spec.providers[0].name"; empty: the object as a whole
    reason: Reason
    detail: str  # what is wrong and what would be right
    value: str = ""  # the offending value as JSON text, where the API server shows it
    rule: str = ""  # the CEL text that did not hold, or a rule beyond the CRD; empty: the schema itself was not met

    @property
    def body(self) -> str:
        """The message without the path, as in a cause: `Invalid value: "x": must be …`."""
        parts = [_SPOKEN[self.reason]]
        if self.value and self.reason not in _WITHOUT_VALUE:
            parts.append(self.value)
        if self.detail:
            parts.append(self.detail)
        return ": ".join(parts)

    @property
    def blocks_rules(self) -> bool:
        return self.reason in _BLOCKING

    def __str__(self) -> str:
        return f"{self.path or '<nil>'}: {self.body}"


class Invalid(ValueError):
    """A spec is wrong; each problem names its field."""

    def __init__(self, problems: Iterable[FieldError]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))
