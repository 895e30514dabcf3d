"""A person's word that a provider can be believed again: annotations of the operator's Namespace."""

from collections.abc import Mapping
from datetime import datetime

from tgp.api.values import is_rfc3339

TRUST = "tgp.io/trust-"  # and the provider's short name; the text is the moment of the person's word


def trust_key(provider: str) -> str:
    return f"{TRUST}{provider}"


def trusted_at(annotations: Mapping[str, str], provider: str) -> datetime | None:
    """Contradictions of this provider before that moment are forgiven. None: no such word, or no moment in it."""
    text = annotations.get(trust_key(provider), "")
    return datetime.fromisoformat(text.upper()) if is_rfc3339(text) else None
