"""Which device of a list is the machine that is looked for. Pure.

Names that the mesh itself makes (`train-1` beside somebody's `train`) decide nothing here. What does, from the surest:
the device's id, the key it joined by where the mesh tells, the address of its Node, and last its hostname as the
machine asked for it, with our tags. Whatever is older than the record of the machine is never it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from tgp.core.model.mesh import Device, Trace

SILENT_AFTER = timedelta(minutes=10)  # a connected client speaks every few seconds


@dataclass(frozen=True, slots=True)
class Member:
    device: Device
    key_id: str = ""  # of the auth key that it joined by; empty: not told


class Ambiguous(Exception):
    """Several devices could be it."""


def found_in(members: Iterable[Member], trace: Trace, tags: tuple[str, ...]) -> Device | None:
    """The machine's device; None: it is not among them. Raises Ambiguous where two have the same claim."""
    young = [member for member in members if not _older(member.device, trace)]
    for member in young:
        if trace.device_id and member.device.id == trace.device_id:
            return member.device
    ours = [member for member in young if set(tags) <= set(member.device.tags)]
    by_key = _joined_by(young, trace)
    # An address passes to somebody else when its device goes: it tells nothing once the device was known.
    by_address = [] if trace.device_id else [m for m in ours if set(m.device.addresses) & set(trace.addresses)]
    for claimants in (by_key, by_address, _called(ours, trace)):
        if len(claimants) == 1:
            return claimants[0].device
        if claimants:
            raise Ambiguous(trace.hostname)
    return None


def leaving(members: Iterable[Member], trace: Trace, tags: tuple[str, ...], now: datetime) -> list[str]:
    """Ids of the devices that go when the machine is removed: all that are surely its own.

    A device by address alone stays. Where several have its hostname and none is known to be it, those go that are
    silent: the machine is gone when this is asked, and another of the same name may be at work.
    """
    young = [member for member in members if not _older(member.device, trace)]
    sure = [m for m in young if trace.device_id and m.device.id == trace.device_id] or _joined_by(young, trace)
    if sure:
        return [member.device.id for member in sure]
    called = _called([member for member in young if set(tags) <= set(member.device.tags)], trace)
    if len(called) > 1 or trace.device_id:
        called = [member for member in called if _silent(member.device, now)]
    return [member.device.id for member in called]


def _older(device: Device, trace: Trace) -> bool:
    """By whole seconds: Tailscale tells no finer."""
    return device.created_at is not None and device.created_at < trace.since.replace(microsecond=0)


def _joined_by(members: list[Member], trace: Trace) -> list[Member]:
    return [member for member in members if trace.key_id and member.key_id == trace.key_id]


def _called(members: list[Member], trace: Trace) -> list[Member]:
    """By the name that the machine asked for; a device whose beginning is not told could be anybody's."""
    return [
        member
        for member in members
        if trace.hostname and member.device.hostname == trace.hostname and member.device.created_at is not None
    ]


def _silent(device: Device, now: datetime) -> bool:
    if device.online is not None:
        return not device.online
    return device.last_seen is not None and device.last_seen < now - SILENT_AFTER
