"""An Event as a screen shows it."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from tgp.core.model.labels import NO_LABELS
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.record import Uid


class Event(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    key: ObjectKey
    uid: Uid = ""
    resource_version: int = 0
    created_at: datetime | None = None
    deletion_requested_at: datetime | None = None
    labels: Mapping[str, str] = NO_LABELS
    annotations: Mapping[str, str] = NO_LABELS  # only those that tgp reads
    finalizers: tuple[str, ...] = ()

    kind: str = ""  # of the object it is about
    about: ObjectKey = ObjectKey("", "")
    warning: bool = False
    reason: str = ""
    message: str = ""
    times: int = 1
    last_at: datetime | None = None  # None: not recorded; `created_at` is close enough
    unreadable: str = ""

    @property
    def deleting(self) -> bool:
        return self.deletion_requested_at is not None

    @property
    def at(self) -> datetime | None:
        return self.last_at or self.created_at
