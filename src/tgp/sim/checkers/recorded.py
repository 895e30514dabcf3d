"""What a recorder keeps of the world: requests, billed machines, orders under way."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tgp.api.values import NEVER, microusd, span
from tgp.core.model.attempts import FINALIZER, UID_ANNOTATION
from tgp.core.model.token import MachineToken, plain_uid, read_token
from tgp.ports.http import Call
from tgp.sim.apiserver.json_value import Json
from tgp.sim.clouds.cloud_faults import CloudFault
from tgp.sim.clouds.machine import Phase, SimulatedMachine

_TOKEN = re.compile(r"tgp-[0-9a-f]{10}-[0-9a-f]{32}-[1-9][0-9]{0,3}")
PROVIDERS_FAULT = frozenset(
    {CloudFault.MADE_TWICE, CloudFault.LIST_LAGS}
)  # two for one; hidden for longer than it ever is


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A GPURequest as the API server has it. `rows` are its attempts, by token."""

    uid: str  # 32 digits
    name: str
    obj: Json = field(repr=False)
    rows: Mapping[str, Json] = field(repr=False)

    @property
    def spec(self) -> Json:
        return self.obj["spec"]  # type: ignore[no-any-return]  # the CRD requires it

    @property
    def deleting(self) -> bool:
        return "deletionTimestamp" in self.obj["metadata"]

    @property
    def guarded(self) -> bool:
        return FINALIZER in self.obj["metadata"].get("finalizers", ())

    @property
    def marked(self) -> bool:
        """Does it carry its own uid, as the finalizer's companion? Or what its pool wrote before there was one?"""
        meta = self.obj["metadata"]
        noted = str((meta.get("annotations") or {}).get(UID_ANNOTATION, ""))
        by_pools = {f"{owner['uid']}/{meta['name']}" for owner in meta.get("ownerReferences") or ()}
        return plain_uid(noted) == self.uid or noted in by_pools

    @property
    def copied(self) -> bool:
        """Does it carry the uid of another object, from a backup?"""
        return UID_ANNOTATION in (self.obj["metadata"].get("annotations") or {}) and not self.marked

    @property
    def node_class(self) -> str:
        """Pinned when money was reserved; empty: not yet."""
        return str(self._status.get("nodeClass") or "")

    @property
    def node(self) -> str:
        return str(self._status.get("nodeName") or "")

    @property
    def phase(self) -> str:
        return str(self._status.get("phase") or "")

    @property
    def _status(self) -> Json:
        return self.obj.get("status") or {}

    def condition(self, kind: str) -> Json:
        """Empty: no value was written."""
        rows = self._status.get("conditions") or ()
        return next((row for row in rows if row.get("type") == kind), {})

    @property
    def is_ending(self) -> bool:
        """Is the termination of its machine recorded?"""
        return self.deleting or self.condition("Terminating").get("status") == "True"

    def open_rows(self) -> Iterator[tuple[str, Json]]:
        """Attempts that may have a machine."""
        return ((token, row) for token, row in self.rows.items() if not row.get("endedAt"))

    def is_open(self, token: str) -> bool:
        row = self.rows.get(token)
        return row is not None and not row.get("endedAt")

    @property
    def cap_microusd(self) -> int | None:
        """None: any price will do."""
        raw = self.spec.get("maxHourlyPrice")
        return None if raw is None else microusd(raw, "maxHourlyPrice")

    def seconds(self, *fields: str, default: str) -> float | None:
        """The first of these lengths of time that is given; None: Never."""
        raw = next((self.spec[name] for name in fields if self.spec.get(name)), default)
        length = span(raw, fields[0])
        return None if length is NEVER else length.total_seconds()


def claim_of(obj: Json) -> RecordedRequest:
    meta = obj["metadata"]
    rows = (obj.get("status") or {}).get("attempts") or ()
    name = f"{meta.get('namespace', '')}/{meta['name']}"
    return RecordedRequest(plain_uid(meta["uid"]), name, obj, {row["token"]: row for row in rows if "token" in row})


@dataclass(slots=True)
class Rented:
    """A machine that some client's order made."""

    provider: str
    machine: SimulatedMachine
    token: MachineToken | None  # None: it carries no mark of ours
    ours: bool  # of this world's cluster
    made_at: float  # loop time
    excused: bool = False  # its provider created a machine that was not ordered, or hid it for longer than it ever does
    denied: bool = False  # its provider denied it, in lists and by id, and no Node showed it: it was believed gone

    @property
    def text(self) -> str:
        """Its mark as it stands in a request; empty: none."""
        return str(self.token) if self.token is not None else ""

    @property
    def alive(self) -> bool:
        return self.machine.phase is not Phase.GONE

    def __str__(self) -> str:
        mark = self.text or f"named {self.machine.name!r}"
        return f"{self.provider} {self.machine.id} ({mark}, {self.machine.phase}, made at {self.made_at:.1f} s)"


@dataclass(frozen=True, slots=True)
class RecordedOrder:
    """A call that pays, as its bytes left."""

    provider: str
    token: MachineToken | None
    process: str
    life: int
    at: float

    def __str__(self) -> str:
        return (
            f"{self.process}/{self.life} ordered {self.token or 'without a token'} at {self.provider} ({self.at:.3f} s)"
        )


def mark_of(machine: SimulatedMachine) -> MachineToken | None:
    """The token by which it can be found in the provider's lists; None: it cannot be found."""
    for text in (machine.name, *machine.tags.values(), *_labels(machine.detail)):
        found = read_token(text)
        if found is not None:
            return found
    return None


def _labels(detail: Mapping[str, Any]) -> Iterator[str]:
    for name in ("label", "labels", "tags"):
        value = detail.get(name)
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            yield from (text for text in value.values() if isinstance(text, str))
        elif isinstance(value, list | tuple):
            yield from (text for text in value if isinstance(text, str))


def token_in(call: Call) -> MachineToken | None:
    """Under which token a paying call orders, whatever its provider's words are."""
    found = _TOKEN.search(call.path) or _TOKEN.search(call.body.decode(errors="replace"))
    found = found or next((hit for _, value in call.query if (hit := _TOKEN.search(value))), None)
    return None if found is None else read_token(found[0])


def is_ready(node: Json | None) -> bool:
    conditions = ((node or {}).get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
