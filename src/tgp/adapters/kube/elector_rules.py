"""What to do about a Lease: pure decisions. No clock, no I/O.

A candidate never compares its own clock with times written by another machine. It notes when *it* saw the record
change, and takes the lease only after the record stayed the same for the whole duration written in it.
"""

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

import msgspec

LONGEST_DURATION = 3_600.0  # seconds; a record that claims more is treated as if it claimed this


class LeaseTimes(msgspec.Struct, frozen=True):
    """Seconds. The defaults are client-go's."""

    duration: float = 15.0  # no other candidate may take over before a record is unchanged for this long
    renew_within: float = 10.0  # our own term ends this long after the start of the last successful renewal
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.retry < self.renew_within < self.duration:
            raise ValueError("a lease needs retry < renew_within < duration")


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """A Lease as stored. `renewed` and `acquired` are compared for sameness only."""

    uid: str
    resource_version: str
    holder: str  # empty: released
    duration: float
    acquired: str
    renewed: str
    transitions: int

    @property
    def content(self) -> tuple[str, float, str, str, int]:
        """The fields a holder writes. An annotation by another client is not a renewal."""
        return self.holder, self.duration, self.acquired, self.renewed, self.transitions


@dataclass(frozen=True, slots=True)
class Seen:
    """A record, and since when (Clock.boottime) we have seen this content."""

    record: LeaseRecord
    since: float


class Create(msgspec.Struct, frozen=True):
    """There is no Lease: create one."""


class Take(msgspec.Struct, frozen=True):
    """The Lease is released, or its holder stopped renewing."""

    record: LeaseRecord


class Renew(msgspec.Struct, frozen=True):
    record: LeaseRecord


class WaitForLease(msgspec.Struct, frozen=True):
    """Another process holds it, or held one that was deleted: wait at least until then (Clock.boottime)."""

    until: float


Decision: TypeAlias = Create | Take | Renew | WaitForLease


def look(before: Seen | None, record: LeaseRecord, now: float) -> Seen:
    """Note a record that was read at `now`; the same content keeps its age."""
    if before is not None and before.record.uid == record.uid and before.record.content == record.content:
        return Seen(record, before.since)
    return Seen(record, now)


def went_back(before: Seen | None, record: LeaseRecord) -> bool:
    """True: an earlier state of the same Lease than the one seen. Only a restored etcd shows that."""
    if before is None or before.record.uid != record.uid:
        return False
    versions = before.record.resource_version, record.resource_version
    return all(each.isascii() and each.isdigit() for each in versions) and int(versions[1]) < int(versions[0])


def decide(identity: str, seen: Seen | None, now: float, *, gone_until: float = -math.inf) -> Decision:
    """`gone_until`: a known Lease was deleted, and its holder may lead until then (Clock.boottime)."""
    if seen is None:
        return Create() if now >= gone_until else WaitForLease(gone_until)
    record = seen.record
    if record.holder == identity:
        return Renew(record)
    if not record.holder:
        return Take(record)
    until = seen.since + min(record.duration, LONGEST_DURATION)
    return Take(record) if now >= until else WaitForLease(until)


def read_record(lease: dict[str, Any], fallback_duration: float) -> LeaseRecord:
    """From a stored Lease; what is missing or malformed reads as absent, which only makes us wait longer."""
    metadata, spec = lease.get("metadata") or {}, lease.get("spec") or {}
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    return LeaseRecord(
        str(metadata.get("uid") or ""),
        str(metadata.get("resourceVersion") or ""),
        str(spec.get("holderIdentity") or ""),
        float(duration) if isinstance(duration, int) and duration > 0 else fallback_duration,
        str(spec.get("acquireTime") or ""),
        str(spec.get("renewTime") or ""),
        transitions if isinstance(transitions, int) else 0,
    )


def spec_of(record: LeaseRecord) -> dict[str, Any]:
    return {
        "holderIdentity": record.holder,
        # whole seconds; fewer would let another replica start in our term
        "leaseDurationSeconds": math.ceil(record.duration),
        "acquireTime": record.acquired,
        "renewTime": record.renewed,
        "leaseTransitions": record.transitions,
    }


def micro_time(moment: datetime) -> str:
    """A MicroTime: UTC, always six digits (the API server refuses none or three)."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def moment_of(text: str) -> datetime | None:
    """A MicroTime as it is stored; None: it cannot be read."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None
