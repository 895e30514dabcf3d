"""Causes of a 422, worded as field errors are."""

from typing import Any

import msgspec

from tgp.sim.apiserver.status_errors import Cause


def shown(value: Any) -> str:
    """A bad value as the API server prints it: quoted text, bare numbers, JSON for the rest."""
    return msgspec.json.encode(value).decode()


def invalid_value(field: str, value: Any, why: str) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value: {shown(value)}: {why}", field)


def required(field: str, why: str = "") -> Cause:
    return Cause("FieldValueRequired", f"Required value: {why}" if why else "Required value", field)


def forbidden_field(field: str, why: str) -> Cause:
    return Cause("FieldValueForbidden", f"Forbidden: {why}", field)


def not_supported(field: str, value: Any, allowed: tuple[str, ...]) -> Cause:
    words = ", ".join(f'"{word}"' for word in allowed)
    return Cause("FieldValueNotSupported", f"Unsupported value: {shown(value)}: supported values: {words}", field)


def duplicate(field: str, value: Any) -> Cause:
    return Cause("FieldValueDuplicate", f"Duplicate value: {shown(value)}", field)


def too_long(field: str, limit: int) -> Cause:
    return Cause("FieldValueTooLong", f"Too long: may not be more than {limit} bytes", field)
