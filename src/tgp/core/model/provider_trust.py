"""An administrator's confirmation that a provider can be trusted again: annotations of the operator's Namespace."""

from collections.abc import Mapping
from datetime import datetime

from tgp.api.values import is_rfc3339

TRUST = "tgp.io/trust-"  # and the provider's short name; the value is the time of the confirmation


def trust_key(provider: str) -> str:
    return f"{TRUST}{provider}"


def trusted_at(annotations: Mapping[str, str], provider: str) -> datetime | None:
    """Contradictions of this provider before that time are ignored. None: no confirmation, or no time in it."""
    text = annotations.get(trust_key(provider), "")
    return datetime.fromisoformat(text.upper()) if is_rfc3339(text) else None
