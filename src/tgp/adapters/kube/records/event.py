"""Events as read: what happened to which object, when last, how often."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from tgp.adapters.kube.records.meta import MetaWire, ObjectMetaReader, PartialObject
from tgp.core.model.event import Event
from tgp.core.model.object_key import ObjectKey


class _AboutWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    kind: str = ""
    namespace: str = ""
    name: str = ""


class _SeriesWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    count: int = 0
    last_observed_time: datetime | None = None


class EventWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The core group's form, which has what either API wrote."""

    metadata: MetaWire
    involved_object: _AboutWire = _AboutWire()
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int | None = None
    series: _SeriesWire | None = None
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None


class EventReader:
    wire = EventWire

    def __init__(self) -> None:
        self._plates = ObjectMetaReader()
        self.pools = self._plates.pools()

    def read(self, wire: EventWire, known: Mapping[ObjectKey, Event]) -> Event:
        series, about = wire.series or _SeriesWire(), wire.involved_object
        moments = (series.last_observed_time, wire.last_timestamp, wire.event_time, wire.first_timestamp)
        return Event(
            **self._plates.fields(wire.metadata, known),
            kind=about.kind,
            about=ObjectKey(about.namespace, about.name),
            warning=wire.type == "Warning",
            reason=wire.reason,
            message=wire.message,
            times=max(series.count, wire.count or 0, 1),
            last_at=next((moment for moment in moments if moment is not None), None),
        )

    def bare(self, found: PartialObject, known: Mapping[ObjectKey, Event]) -> Event:
        return Event(**self._plates.bare(found, known))
