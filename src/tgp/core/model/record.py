"""What every record of an object in the cluster has, for every kind.

Records are what is left of an object after its kind's projection: a flat, frozen value with the fields we decide on,
cheap to hold by the hundred thousand. Sub-values (labels, tolerations, requests) are shared between replicas, so they
must be treated as frozen too.
"""

from functools import lru_cache
from typing import Protocol, TypeAlias

from tgp.core.model.object_key import ObjectKey

UIDS_KEPT = 65_536  # whose text is cached: it is read dozens of times in a reconcile

Uid: TypeAlias = bytes | str  # 16 bytes when it is a canonical UUID, as the API server makes them; else its text


class ObjectRecord(Protocol):
    @property
    def key(self) -> ObjectKey: ...

    @property
    def uid(self) -> Uid: ...

    @property
    def resource_version(self) -> int:
        """Grows with every write to any object of the kind: two versions of one kind can be compared."""
        ...

    @property
    def deleting(self) -> bool:
        """Its deletion was requested; finalizers or a grace period may still hold it."""
        ...


def pack_uid(text: str) -> Uid:
    """A uid in 16 bytes, if nothing is lost by it: `uid_text` returns exactly `text`."""
    digits = text.replace("-", "")
    if len(text) != 36 or len(digits) != 32 or text[8:24:5] != "----":
        return text
    try:
        packed = bytes.fromhex(digits)
    except ValueError:
        return text
    return packed if packed.hex() == digits else text  # capitals would be lost


def uid_text(uid: Uid) -> str:
    """The uid as the API server writes it."""
    return uid if isinstance(uid, str) else _unpacked(uid)


@lru_cache(maxsize=UIDS_KEPT)
def _unpacked(uid: bytes) -> str:
    digits = uid.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
