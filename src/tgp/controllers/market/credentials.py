"""The API keys for a source of offers or an account: read through the secret reader, never kept."""

from collections.abc import Iterable, Mapping

import msgspec

from tgp.core.model.secret import Secret
from tgp.core.model.source import Source
from tgp.ports.cluster import Forbidden
from tgp.ports.secret_reader import SecretReader


class Credentials(msgspec.Struct, frozen=True):
    own: Secret | None = None  # None: it needs none, or there is none; `missing` says which
    others: Mapping[tuple[str, str], Secret] = msgspec.field(default_factory=dict)  # that the settings refer to
    missing: str = ""  # why there is no key where one is named

    @property
    def fingerprint(self) -> str:
        return self.own.fingerprint if self.own is not None else ""

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """Differs for every set of secrets, and reveals none of them."""
        others = (f"{secret}/{key}={value.fingerprint}" for (secret, key), value in sorted(self.others.items()))
        return self.fingerprint, *others


async def credentials_for(source: Source, secret_reader: SecretReader) -> Credentials:
    """Raises ClusterError where the API server does not answer."""
    own, missing = await _value(secret_reader, source.secret, source.key) if source.secret else (None, "")
    others: dict[tuple[str, str], Secret] = {}
    for secret, key in referred_to(source):
        value, _ = await _value(secret_reader, secret, key)
        if value is not None:
            others[secret, key] = value
    return Credentials(own, others, missing)


def referred_to(source: Source) -> list[tuple[str, str]]:
    """Secrets that the settings name: headers and signing keys of machines."""
    refs = [
        ref for machine in source.settings.machines for ref in (machine.headers_secret_ref, machine.signing_secret_ref)
    ]
    return [(ref.name, ref.key) for ref in refs if ref is not None]


def secrets_of(source: Source) -> frozenset[str]:
    """Names of every Secret that a call needs."""
    names = (source.secret, *(secret for secret, _ in referred_to(source)))
    return frozenset(name for name in names if name)


async def present_keys(
    names: Iterable[str], secret_reader: SecretReader
) -> tuple[dict[str, frozenset[str]], frozenset[str]]:
    """Which keys the Secrets of these names hold, and which of them may not be read: values are not read here."""
    present: dict[str, frozenset[str]] = {}
    forbidden: set[str] = set()
    for name in names:
        try:
            values = await secret_reader.read(name)
        except Forbidden:
            forbidden.add(name)
            continue
        if values is not None:
            present[name] = frozenset(values)
    return present, frozenset(forbidden)


async def _value(secret_reader: SecretReader, secret: str, key: str) -> tuple[Secret | None, str]:
    """The value, or why there is none."""
    try:
        values = await secret_reader.read(secret)
    except Forbidden:
        return None, f"the operator may not read Secret {secret}: add get on that Secret to the operator's Role"
    if values is None:
        return None, f"Secret {secret} does not exist"
    value = values.get(key)
    return value, "" if value is not None else f"Secret {secret} has no key {key}"
