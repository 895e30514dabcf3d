"""Which device of a list is the machine that is looked for. Pure.

Names that the mesh itself makes (`train-1` beside somebody's `train`) decide nothing here. What does, from the surest:
the device's id, the key it joined by where the mesh tells, the address of its Node, and last its hostname as the
machine asked for it, with our tags, and only once its key was used: until then whoever has the name is another.
Whatever is older than the record of the machine is never it.
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


@dataclass(frozen=True, slots=True)
class Found:
    """The machine's device, and how it was told: by nothing but a name, which anybody in the mesh may take?"""

    devices: tuple[Device, ...]  # several have the same claim; none: it is not among the members
    by_name: bool = False


def found_in(members: Iterable[Member], trace: Trace, tags: tuple[str, ...], *, tells_keys: bool) -> Found:
    """`tells_keys`: the mesh says of each device by which key it joined; then nothing but the machine's own decides."""
    young = [member for member in members if not _older(member.device, trace)]
    for member in young:
        if trace.device_id and member.device.id == trace.device_id:
            return Found((member.device,))
    by_key = _joined_by(young, trace)
    if by_key or (tells_keys and trace.key_id):
        return _claimed(by_key)
    ours = [member for member in young if set(tags) <= set(member.device.tags)]
    # An address passes to somebody else when its device goes: it tells nothing once the device was known.
    by_address = [] if trace.device_id else [m for m in ours if set(m.device.addresses) & set(trace.addresses)]
    return _claimed(by_address) if by_address else _claimed(_called(ours, trace), by_name=True)


def leaving(
    members: Iterable[Member], trace: Trace, tags: tuple[str, ...], now: datetime, *, named_since: datetime | None
) -> list[str]:
    """Ids of the devices that go when the machine is removed: all that are surely its own.

    A device by address alone stays. Where several have its hostname and none is known to be it, those go that are
    silent: the machine is gone when this is asked, and another of the same name may be at work. `named_since`: a name
    tells something of younger devices only; None: of any.
    """
    young = [member for member in members if not _older(member.device, trace)]
    sure = [m for m in young if trace.device_id and m.device.id == trace.device_id] or _joined_by(young, trace)
    if sure:
        return [member.device.id for member in sure]
    called = _called([member for member in young if set(tags) <= set(member.device.tags)], trace)
    if named_since is not None:
        called = [each for each in called if each.device.created_at and each.device.created_at >= named_since]
    if len(called) > 1 or trace.device_id:
        called = [member for member in called if _silent(member.device, now)]
    return [member.device.id for member in called]


def _claimed(members: list[Member], *, by_name: bool = False) -> Found:
    return Found(tuple(member.device for member in members), by_name)


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
