"""A record of one of our own kinds: the object as its typed value, with what reconciling it needs beside it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from tgp.core.model.labels import NO_LABELS
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import OwnerRef
from tgp.core.model.record import Uid, uid_text

T = TypeVar("T")


class KubeObject(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    key: ObjectKey
    uid: Uid = ""
    resource_version: int = 0
    generation: int = 0
    created_at: datetime | None = None
    deletion_requested_at: datetime | None = None
    labels: Mapping[str, str] = NO_LABELS
    annotations: Mapping[str, str] = NO_LABELS  # all of them
    finalizers: tuple[str, ...] = ()
    owners: tuple[OwnerRef, ...] = ()
    value: T | None = None  # None: it could not be read, see `unreadable`
    status_document: bytes = b""  # `.status` as the API server has it, byte for byte
    lifetime_written: str = ""  # spec.maxLifetime, or ttl, of an object that could not be read; empty: it has none
    unreadable: str = ""  # why there is no `value`: written by a newer version, say. It still owns what it bought.

    @property
    def deleting(self) -> bool:
        return self.deletion_requested_at is not None

    @property
    def uid_text(self) -> str:
        return uid_text(self.uid)

    @property
    def status(self) -> dict[str, Any]:
        """`.status` as a dict of its own, with the fields we do not know: what a status write starts from."""
        decoded = msgspec.json.decode(self.status_document) if self.status_document else None
        return decoded if isinstance(decoded, dict) else {}
