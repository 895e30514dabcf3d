"""Which device of a list is the wanted machine. Pure.

Names that the mesh itself makes (`train-1` beside another's `train`) are ignored. What counts, most reliable first: the
device's id, the key it joined with if the mesh shows it, the address of its Node, and last its hostname as the machine
asked for it, with our tags, and only once its key was used: until then the device with that name is another one. A
device older than the record of the machine never matches.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from tgp.core.model.mesh import Device, DeviceRef

SILENT_AFTER = timedelta(minutes=10)  # a connected client is seen every few seconds


@dataclass(frozen=True, slots=True)
class Member:
    device: Device
    key_id: str = ""  # of the auth key that it joined with; empty: unknown


@dataclass(frozen=True, slots=True)
class FoundDevice:
    """The machine's device, and whether only a name matched, which any member of the mesh may take."""

    devices: tuple[Device, ...]  # several match equally; none: not a member
    by_name: bool = False


def found_in(members: Iterable[Member], trace: DeviceRef, tags: tuple[str, ...], *, tells_keys: bool) -> FoundDevice:
    """`tells_keys`: the mesh shows the key of each device; then only the machine's own key matches."""
    young = [member for member in members if not _older(member.device, trace)]
    for member in young:
        if trace.device_id and member.device.id == trace.device_id:
            return FoundDevice((member.device,))
    by_key = _joined_by(young, trace)
    if by_key or (tells_keys and trace.key_id):
        return _claimed(by_key)
    ours = [member for member in young if set(tags) <= set(member.device.tags)]
    # An address is reused when its device is removed: it proves nothing once the device was known.
    by_address = [] if trace.device_id else [m for m in ours if set(m.device.addresses) & set(trace.addresses)]
    return _claimed(by_address) if by_address else _claimed(_called(ours, trace), by_name=True)


def leaving(
    members: Iterable[Member], trace: DeviceRef, tags: tuple[str, ...], now: datetime, *, named_since: datetime | None
) -> list[str]:
    """Ids of the devices to remove with the machine: all that are certainly its own.

    A device matched by address alone stays. If several have its hostname and none is certain, the silent ones are
    removed: the machine is gone by now, and another of the same name may be running. `named_since`: a name only
    matches younger devices; None: any.
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


def _claimed(members: list[Member], *, by_name: bool = False) -> FoundDevice:
    return FoundDevice(tuple(member.device for member in members), by_name)


def _older(device: Device, trace: DeviceRef) -> bool:
    """In whole seconds: Tailscale's resolution."""
    return device.created_at is not None and device.created_at < trace.since.replace(microsecond=0)


def _joined_by(members: list[Member], trace: DeviceRef) -> list[Member]:
    return [member for member in members if trace.key_id and member.key_id == trace.key_id]


def _called(members: list[Member], trace: DeviceRef) -> list[Member]:
    """By the name that the machine asked for; a device without a creation time never matches."""
    return [
        member
        for member in members
        if trace.hostname and member.device.hostname == trace.hostname and member.device.created_at is not None
    ]


def _silent(device: Device, now: datetime) -> bool:
    if device.online is not None:
        return not device.online
    return device.last_seen is not None and device.last_seen < now - SILENT_AFTER
