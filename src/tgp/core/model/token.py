"""The token that marks a machine at its provider. Once released its form never changes: machines are found by it."""

import re
from functools import lru_cache

import msgspec

from tgp.core.model.identity import CLUSTER_DIGITS

MOST_ATTEMPTS = 9999  # of one request: more digits would not fit every provider's name field
KEPT = 65_536  # parsed texts that are cached: every list of a provider's machines parses every token
_FORM = re.compile(rf"tgp-([0-9a-f]{{{CLUSTER_DIGITS}}})-([0-9a-f]{{32}})-([1-9][0-9]{{0,3}})")


class MachineToken(msgspec.Struct, frozen=True):
    """`tgp-<cluster id>-<request uid, 32 hex digits>-<attempt>`: 52 characters at most, fit for every provider."""

    cluster: str
    uid: str  # without dashes
    attempt: int

    def __str__(self) -> str:
        return f"tgp-{self.cluster}-{self.uid}-{self.attempt}"


def token_for(cluster: str, uid: str, attempt: int) -> str:
    return str(MachineToken(cluster, plain_uid(uid), attempt))


@lru_cache(maxsize=KEPT)
def read_token(text: str) -> MachineToken | None:
    """None: not a token of tgp, of any cluster."""
    found = _FORM.fullmatch(text)
    return None if found is None else MachineToken(found[1], found[2], int(found[3]))


def cluster_prefix(cluster: str) -> str:
    """Every token of a cluster begins with it."""
    return f"tgp-{cluster}-"


@lru_cache(maxsize=KEPT)
def plain_uid(uid: str) -> str:
    """As it stands in a token."""
    return uid.replace("-", "").lower()
