"""A mesh with a control server: keys are minted there, devices listed and removed. What Tailscale and Headscale share.

How a server is asked, and how it answers, is its `Control`'s business.
"""

from collections.abc import Awaitable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol

from tgp.adapters.mesh.membership import Found, Member, found_in, leaving
from tgp.adapters.mesh.roll import Roll
from tgp.core.model.mesh import TAILNET, Device, MeshReport, MeshSettings, Network, Ref, Secrets, TailscaleJoin, Trace
from tgp.core.model.secret import Secret
from tgp.ports.clock import Clock
from tgp.ports.mesh import Enrolment, MeshError, MeshRefused, Ticket

LEAST_LIFE = timedelta(minutes=1)  # of a key: rounding and clocks must not make one that was never valid
LONGEST_LIFE = timedelta(days=90)  # what Tailscale gives at most
REFUSAL_KEPT_SECONDS = 600.0  # then the check lets it be tried again: somebody may have put it right
USED_KEPT = 4096  # keys that are remembered to be used
CLOCKS_APART = timedelta(seconds=10)  # of the control server's clock and ours
NEVER = datetime.max.replace(tzinfo=UTC)
FIXED_KEY = (
    "one fixed auth key serves all machines: it must be reusable, it ends after at most 90 days, and whoever reads one "
    "machine's user data can join by it; an OAuth client mints one for each machine instead"
)
UNSEEN = "without an OAuth client (or, at a Headscale, an API key) devices can be neither seen nor removed"


@dataclass(frozen=True, slots=True)
class Minted:
    key_id: str
    key: Secret


@dataclass(frozen=True, slots=True)
class Findings:
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())


class Control(Protocol):
    """One control server under one credential. Every verb raises MeshRefused or MeshBusy, in words without secrets."""

    @property
    def title(self) -> str: ...

    @property
    def ids_are_its_own(self) -> bool:
        """No other server gives out the same device id: one that is not listed may be asked to be deleted."""
        ...

    async def tells_keys(self) -> bool:
        """Of each device it says by which key it joined."""
        ...

    async def mint(self, ticket: Ticket, lasts: timedelta) -> Minted: ...

    async def is_unused(self, key_id: str) -> bool:
        """Has nobody joined by this single-use key yet? False: somebody has, or it ended, or it is not told."""
        ...

    async def members(self) -> tuple[Member, ...]: ...

    async def delete(self, device_id: str) -> None:
        """What is gone already is gone."""
        ...

    async def revoke(self, key_id: str) -> None:
        """Nobody joins by it any more; who has joined stays as it is."""
        ...

    async def forget(self, key_id: str) -> None:
        """The rest of it, once its devices are gone."""
        ...

    async def findings(self) -> Findings: ...


class ControlledMesh:
    """Implements the `Mesh` port. Without a control nobody can be asked, and a fixed key is the only way in.

    Without either no machine gets in, and nothing hinders giving up those that did: `wanted` says what is missing.
    """

    def __init__(
        self, settings: MeshSettings, control: Control | None, fixed_key: Secret | None, clock: Clock, *, wanted: str
    ) -> None:
        self._settings = settings
        self._wanted = wanted
        self._control = control
        self._fixed_key = fixed_key
        self._clock = clock
        self._roll = Roll(control.members, clock) if control is not None else None
        self._used: dict[str, None] = {}  # ids of keys that somebody has joined by, the oldest first
        self._refused: tuple[str, float] | None = None  # why no key was made, and until when that is believed

    @property
    def settings(self) -> MeshSettings:
        return self._settings

    @property
    def has_devices(self) -> bool:
        return self._control is not None

    @property
    def ranges(self) -> tuple[Network, ...]:
        return TAILNET

    async def enrol(self, ticket: Ticket) -> Enrolment:
        if self._fixed_key is not None:
            return Enrolment(self._join(self._fixed_key, ticket.hostname, single_use=False))
        if self._control is None:
            raise MeshRefused(self._wanted)
        if not self._settings.tags:
            raise MeshRefused(
                f"{self._control.title} makes no auth key without tags: write the tag of these machines into "
                "tailscaleConfig.tags (tag:tgp-gpu, say)"
            )
        left = ticket.expires_at - self._clock.now()
        try:
            minted = await self._control.mint(ticket, min(max(left, LEAST_LIFE), LONGEST_LIFE))
        except MeshRefused as error:
            self._refused = str(error), self._clock.boottime() + REFUSAL_KEPT_SECONDS
            raise
        self._refused = None
        return Enrolment(self._join(minted.key, ticket.hostname, single_use=True), key_id=minted.key_id)

    def _join(self, key: Secret, hostname: str, *, single_use: bool) -> TailscaleJoin:
        return TailscaleJoin(
            auth_key=key,
            hostname=hostname,
            single_use=single_use,
            accept_routes=self._settings.accept_routes,
            advertise_routes=self._settings.advertise_routes,
            login_server=self._settings.login_server,
        )

    async def find(self, trace: Trace) -> Device | None:
        if self._control is None or self._roll is None:
            raise MeshRefused(UNSEEN)
        members = await self._roll.lately()
        found = found_in(members, trace, self._settings.tags, tells_keys=await self._control.tells_keys())
        if found.by_name and found.devices and await self._is_unused(trace):
            return None  # anybody may take a name: ours has not joined, so this is another
        return _the_one(found, trace)

    async def _is_unused(self, trace: Trace) -> bool:
        """A key that was used stays used: asked until then."""
        assert self._control is not None, "asked without a control"
        if not trace.key_id or trace.key_id in self._used:
            return False
        unused = await self._control.is_unused(trace.key_id)
        if not unused:
            self._used[trace.key_id] = None
            while len(self._used) > USED_KEPT:
                del self._used[next(iter(self._used))]
        return unused

    async def remove(self, trace: Trace) -> None:
        """First the key, so that nobody joins any more; then whoever has joined. One refusal does not save the rest."""
        if self._control is None or self._roll is None:
            return  # nobody can be asked; `check` says so
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

    async def _named_since(self, trace: Trace, failures: list[MeshError]) -> datetime | None:
        """From when on a device under the machine's name could be the machine; None: always.

        A key that tells by which device it was used decides alone, and one that nobody has used yet says that whoever
        has the name already is another. Asked before it is revoked: afterwards nobody can tell.
        """
        assert self._control is not None, "asked without a control"
        if not trace.key_id:
            return None
        asked_at = self._clock.now() - CLOCKS_APART
        try:
            if await self._control.tells_keys():
                return NEVER
            return asked_at if await self._is_unused(trace) else None
        except MeshError as error:
            failures.append(error)
            return NEVER  # what cannot be told to be ours stays; this is asked again

    async def _remove_devices(
        self, members: tuple[Member, ...], trace: Trace, named_since: datetime | None, failures: list[MeshError]
    ) -> None:
        assert self._control is not None, "asked without a control"
        going = leaving(members, trace, self._settings.tags, self._clock.now(), named_since=named_since)
        listed = {member.device.id for member in members}
        if trace.device_id and trace.device_id not in listed and self._control.ids_are_its_own:
            going.append(trace.device_id)  # a tailnet that is not ours any more would say so
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
            wrong.append("tailscaleConfig.tags is empty, and a key that is minted here must have tags")
        if self._refused is not None and self._clock.boottime() < self._refused[1]:
            wrong.append(self._refused[0])
        return MeshReport(usable=not wrong, problems=tuple(wrong), notes=(*notes, *found.notes))


def _the_one(found: Found, trace: Trace) -> Device | None:
    if len(found.devices) > 1:
        raise MeshRefused(
            f"several devices in the tailnet are called {trace.hostname}, and nothing tells which of them this "
            "machine is: give machines different hostnames"
        )
    return next(iter(found.devices), None)


def secret_of(secrets: Secrets, ref: Ref | None) -> Secret | None:
    """None: it is not asked for. Raises MeshRefused where it is, and is not there."""
    if ref is None:
        return None
    found = secrets.get(ref)
    if found is None or not found.reveal().strip():
        raise MeshRefused(f"Secret {ref.secret} in the operator's namespace has no key {ref.key}, or nothing in it")
    return Secret(found.reveal().strip())
