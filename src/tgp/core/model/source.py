"""Where offers come from: one provider, called with one key and one set of settings."""

from dataclasses import dataclass, field
from hashlib import sha256

import msgspec

from tgp.api.nodeclass import ProviderSettings

DIGEST_DIGITS = 8
PLAIN = ProviderSettings()


@dataclass(frozen=True, slots=True)
class Source:
    """Classes that agree on all of this share a listing, and the provider is polled once."""

    provider: str  # canonical
    secret: str = ""  # the Secret that holds the key; empty: it needs none
    key: str = ""
    settings: ProviderSettings = field(default=PLAIN, compare=False)
    digest: str = ""  # of the settings; empty: none are set

    @property
    def name(self) -> str:
        """Short, stable and fit for a log line: acme/tgp-operator-secret/ACME_API_KEY#1a2b3c4d."""
        credential = f"/{self.secret}/{self.key}" if self.secret else ""
        return f"{self.provider}{credential}" + (f"#{self.digest}" if self.digest else "")


def source_of(provider: str, secret: str, key: str, settings: ProviderSettings | None) -> Source:
    settings = settings or PLAIN
    digest = ""
    if settings != PLAIN:
        digest = sha256(msgspec.json.encode(settings, order="sorted")).hexdigest()[:DIGEST_DIGITS]
    return Source(provider, secret, key, settings, digest)
