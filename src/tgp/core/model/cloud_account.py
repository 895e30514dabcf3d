"""An account at a provider that was ordered from: where its machines are found, and with which key they are terminated.

The accounts are in a table in the operator's own namespace, one line each, written from classes alone. An attempt
names one of them by its id: nothing that is written in a tenant's namespace names a Secret, an endpoint or a project.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cached_property
from hashlib import blake2b

import msgspec

from tgp.api.nodeclass import ProviderSettings
from tgp.api.request import Attempt
from tgp.core.model.account_access import AccountAccess
from tgp.core.model.source import PLAIN

TABLE = "tgp-accounts"  # the ConfigMap
FINGERPRINT = "key:"  # how the identity of an account begins where its provider names none: the key is all there is
WITNESSES_KEPT = 8  # machines by which such an account is known again under another key
_ID_BYTES = 6


class CloudAccount(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", dict=True):
    id: str
    provider: str
    secret: str = ""  # the Secret that holds the key; empty: it needs none
    key: str = ""
    settings: ProviderSettings = PLAIN  # only what finding and terminating need
    identities: tuple[str, ...] = ()  # as the provider reported them, the first one first; none: it reported none
    witnesses: tuple[str, ...] = ()  # tokens of machines that were listed there; only where the key is the identity
    holder: str = ""  # of an owned machine: the token it was last reserved for
    empty_since: datetime | None = None  # no machine is there, and no request may have one there

    @cached_property
    def access(self) -> AccountAccess:
        return AccountAccess(self.provider, self.secret, self.key, self.settings)

    @property
    def owned(self) -> bool:
        """An owned machine, switched on and off, and never rented."""
        return bool(self.settings.machines)

    @property
    def identity(self) -> str:
        """For users; empty: the provider reported none."""
        return self.identities[-1] if self.identities else ""

    def includes(self, identity: str) -> bool:
        return not self.identities or identity in self.identities


def account_of(access: AccountAccess, identity: str) -> CloudAccount:
    """The same account access and identity always make the same id: a lost line can be written again."""
    return CloudAccount(
        _id(access, identity),
        access.provider,
        access.secret,
        access.key,
        access.settings,
        (identity,) if identity else (),
    )


def resolved(accounts: Mapping[str, CloudAccount], attempt: Attempt) -> CloudAccount | None:
    """The account that an attempt names; None: no such account was used, or not by this token."""
    account = accounts.get(attempt.account or "")
    if account is None or (attempt.offer is not None and attempt.offer.provider != account.provider):
        return None
    return account if not account.owned or account.holder == attempt.token else None


def known_again(account: CloudAccount, identity: str, tokens: Iterable[str]) -> bool:
    """Whether a key unknown so far belongs to this account: it lists a machine that was listed there before.

    Only where the key is all that identifies the account. A token is on one machine in the world.
    """
    fingerprints = all(each.startswith(FINGERPRINT) for each in (identity, *account.identities))
    return bool(account.identities) and fingerprints and not frozenset(account.witnesses).isdisjoint(tokens)


def line_of(account: CloudAccount) -> str:
    return msgspec.json.encode(account).decode()


def read_line(line: object) -> CloudAccount | None:
    """None: this version cannot read it. The line is kept, and attempts that name it stay unknown."""
    try:
        return msgspec.json.decode(line, type=CloudAccount) if isinstance(line, str) else None
    except msgspec.DecodeError:
        return None


def _id(access: AccountAccess, identity: str) -> str:
    said = [access.provider, access.secret, access.key, msgspec.to_builtins(access.settings, order="sorted"), identity]
    digest = blake2b(msgspec.json.encode(said, order="sorted"), digest_size=_ID_BYTES).hexdigest()
    return f"{access.provider}-{digest}"
