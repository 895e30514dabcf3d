"""A mesh with a control server: keys are minted there, devices listed and removed. What Tailscale and Headscale share.

`Control` has the calls and answers of one server.
"""

from collections.abc import Awaitable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol

from tgp.adapters.mesh.device_list import DeviceList
from tgp.adapters.mesh.membership import FoundDevice, Member, found_in, leaving
from tgp.core.model.mesh import (
    TAILNET,
    Device,
    DeviceRef,
    MeshReport,
    MeshSettings,
    Network,
    Ref,
    Secrets,
    TailscaleJoin,
)
from tgp.core.model.secret import Secret
from tgp.ports.clock import Clock
from tgp.ports.mesh import Enrollment, JoinRequest, MeshError, MeshRefused

LEAST_LIFE = timedelta(minutes=1)  # of a key: so that rounding and clock skew cannot make an expired key
LONGEST_LIFE = timedelta(days=90)  # what Tailscale gives at most
REFUSAL_KEPT_SECONDS = 600.0  # then it is tried again: an administrator may have fixed it
USED_KEPT = 4096  # used keys that are remembered
CLOCKS_APART = timedelta(seconds=10)  # allowed skew between the control server's clock and ours
NEVER = datetime.max.replace(tzinfo=UTC)
FIXED_KEY = (
    "one fixed auth key serves all machines: the key must be reusable, expires after at most 90 days, and every reader "
    "of one machine's user data can join with it; an OAuth client mints one key per machine instead"
)
UNSEEN = "tgp cannot list or remove devices without an OAuth client (with Headscale also: an API key)"


@dataclass(frozen=True, slots=True)
class Minted:
    key_id: str
    key: Secret


@dataclass(frozen=True, slots=True)
class Findings:
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())


class Control(Protocol):
    """One control server under one credential. Every verb raises MeshRefused or MeshBusy, without secrets in
    the text.
    """

    @property
    def title(self) -> str: ...

    @property
    def ids_are_its_own(self) -> bool:
        """True: device ids are globally unique, so a device that is not listed may be deleted by id."""
        ...

    async def tells_keys(self) -> bool:
        """True: each device names the key that it joined with."""
        ...

    async def mint(self, join_request: JoinRequest, lasts: timedelta) -> Minted: ...

    async def is_unused(self, key_id: str) -> bool:
        """True: no device joined with this single-use key yet. False: one has, or the key expired, or unknown."""
        ...

    async def members(self) -> tuple[Member, ...]: ...

    async def delete(self, device_id: str) -> None:
        """Already deleted is a success."""
        ...

    async def revoke(self, key_id: str) -> None:
        """No device can join with the key any more; joined devices stay."""
        ...

    async def forget(self, key_id: str) -> None:
        """Clean-up of the key, once its devices are gone."""
        ...

    async def findings(self) -> Findings: ...


class ControlledMesh:
    """Implements the `Mesh` port. Without a control server no device can be listed, and a fixed key is the only way to
    join.

    Without either no machine can join, but machines can still be terminated: `wanted` says what is missing.
    """

    def __init__(
        self, settings: MeshSettings, control: Control | None, fixed_key: Secret | None, clock: Clock, *, wanted: str
    ) -> None:
        self._settings = settings
        self._wanted = wanted
        self._control = control
        self._fixed_key = fixed_key
        self._clock = clock
        self._roll = DeviceList(control.members, clock) if control is not None else None
        self._used: dict[str, None] = {}  # ids of used keys, the oldest first
        self._refused: tuple[str, float] | None = None  # why no key was made, and until when that is cached

    @property
    def settings(self) -> MeshSettings:
        return self._settings

    @property
    def has_devices(self) -> bool:
        return self._control is not None

    @property
    def ranges(self) -> tuple[Network, ...]:
        return TAILNET

    async def enroll(self, join_request: JoinRequest) -> Enrollment:
        if self._fixed_key is not None:
            return Enrollment(self._join(self._fixed_key, join_request.hostname, single_use=False))
        if self._control is None:
            raise MeshRefused(self._wanted)
        if not self._settings.tags:
            raise MeshRefused(
                f"{self._control.title} requires tags on auth keys: write the tag of these machines into "
                "tailscaleConfig.tags, such as tag:tgp-gpu"
            )
        left = join_request.expires_at - self._clock.now()
        try:
            minted = await self._control.mint(join_request, min(max(left, LEAST_LIFE), LONGEST_LIFE))
        except MeshRefused as error:
            self._refused = str(error), self._clock.boottime() + REFUSAL_KEPT_SECONDS
            raise
        self._refused = None
        return Enrollment(self._join(minted.key, join_request.hostname, single_use=True), key_id=minted.key_id)

    def _join(self, key: Secret, hostname: str, *, single_use: bool) -> TailscaleJoin:
        return TailscaleJoin(
            auth_key=key,
            hostname=hostname,
            single_use=single_use,
            accept_routes=self._settings.accept_routes,
            advertise_routes=self._settings.advertise_routes,
            login_server=self._settings.login_server,
        )

    async def find(self, trace: DeviceRef) -> Device | None:
        if self._control is None or self._roll is None:
            raise MeshRefused(UNSEEN)
        members = await self._roll.lately()
        found = found_in(members, trace, self._settings.tags, tells_keys=await self._control.tells_keys())
        if found.by_name and found.devices and await self._is_unused(trace):
            return None  # a name is no proof: our machine has not joined, so this is another device
        return _the_one(found, trace)

    async def _is_unused(self, trace: DeviceRef) -> bool:
        """A used key stays used: checked until then."""
        assert self._control is not None, "no control server"
        if not trace.key_id or trace.key_id in self._used:
            return False
        unused = await self._control.is_unused(trace.key_id)
        if not unused:
            self._used[trace.key_id] = None
            while len(self._used) > USED_KEPT:
                del self._used[next(iter(self._used))]
        return unused

    async def remove(self, trace: DeviceRef) -> None:
        """First the key, so that no device can join any more; then the joined devices. One refusal does not stop the
        rest.
        """
        if self._control is None or self._roll is None:
            return  # no API access; `check` says so
        failures: list[MeshError] = []
        named_since = await self._named_since(trace, failures)
        if trace.key_id:
            await self._try(self._control.revoke(trace.key_id), failures)
        try:
            members = await self._roll.afresh()
        except MeshError as error:
            failures.append(error)
        else:
            await self._remove_devices(members, trace, named_since, failures)
        if trace.key_id and not failures:
            await self._try(self._control.forget(trace.key_id), failures)
        self._roll.forget()
        if failures:
            raise failures[0]

    async def _named_since(self, trace: DeviceRef, failures: list[MeshError]) -> datetime | None:
        """From when on a device under the machine's name could be the machine; None: always.

        If the server names the device that used a key, that decides alone. A key that is still unused means that a
        device with this name is another one. Checked before the key is revoked: afterwards it cannot be known.
        """
        assert self._control is not None, "no control server"
        if not trace.key_id:
            return None
        asked_at = self._clock.now() - CLOCKS_APART
        try:
            if await self._control.tells_keys():
                return NEVER
            return asked_at if await self._is_unused(trace) else None
        except MeshError as error:
            failures.append(error)
            return NEVER  # a device that may not be ours stays; tried again later

    async def _remove_devices(
        self, members: tuple[Member, ...], trace: DeviceRef, named_since: datetime | None, failures: list[MeshError]
    ) -> None:
        assert self._control is not None, "no control server"
        going = leaving(members, trace, self._settings.tags, self._clock.now(), named_since=named_since)
        listed = {member.device.id for member in members}
        if trace.device_id and trace.device_id not in listed and self._control.ids_are_its_own:
            going.append(trace.device_id)  # a foreign tailnet would refuse
        for device_id in going:
            await self._try(self._control.delete(device_id), failures)

    @staticmethod
    async def _try(doing: Awaitable[None], failures: list[MeshError]) -> None:
        try:
            await doing
        except MeshError as error:
            failures.append(error)

    async def check(self) -> MeshReport:
        notes = (FIXED_KEY,) if self._fixed_key is not None else ()
        if self._control is None:
            problems = () if self._fixed_key is not None else (self._wanted,)
            return MeshReport(usable=not problems, problems=problems, notes=(*notes, UNSEEN))
        try:
            found = await self._control.findings()
        except MeshRefused as error:
            return MeshReport(usable=False, problems=(str(error),), notes=notes)
        wrong = list(found.problems)
        if self._fixed_key is None and not self._settings.tags:
            wrong.append("tailscaleConfig.tags is empty, and minted keys must have tags")
        if self._refused is not None and self._clock.boottime() < self._refused[1]:
            wrong.append(self._refused[0])
        return MeshReport(usable=not wrong, problems=tuple(wrong), notes=(*notes, *found.notes))


def _the_one(found: FoundDevice, trace: DeviceRef) -> Device | None:
    if len(found.devices) > 1:
        raise MeshRefused(
            f"several devices in the tailnet are called {trace.hostname}, and tgp cannot tell which of them is this "
            "machine: give machines different hostnames"
        )
    return next(iter(found.devices), None)


def secret_of(secrets: Secrets, ref: Ref | None) -> Secret | None:
    """None: not configured. Raises MeshRefused if configured and missing."""
    if ref is None:
        return None
    found = secrets.get(ref)
    if found is None or not found.reveal().strip():
        raise MeshRefused(
            f"Secret {ref.secret} in the operator's namespace has no key {ref.key}, or its value is empty"
        )
    return Secret(found.reveal().strip())
