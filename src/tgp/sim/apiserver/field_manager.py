"""Who owns which field: `metadata.managedFields`, kept through every create, update, patch and apply."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tgp.sim.apiserver.core import Write
from tgp.sim.apiserver.json_value import Json, metadata, same
from tgp.sim.apiserver.patch.fields import Fields, Path, read_fields, written
from tgp.sim.apiserver.patch.typed import Difference, Ignored, differ, schema_of
from tgp.sim.apiserver.registry import Served

MANAGERS_KEPT = 1024  # different managers, endpoints and versions cached; a cluster has a few dozen
MAX_UPDATE_MANAGERS = 10  # beyond it the oldest are folded into one
ANCIENT = "ancient-changes"
UNKNOWN = "unknown"

# What a Go struct writes even when it is not set: owned by no manager
BORN_WITH: dict[str, Json] = {
    "events": {
        "involvedObject": {},
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
    }
}

SERVER_OWNED: frozenset[Path] = frozenset(
    {
        ("f:apiVersion",),
        ("f:kind",),
        ("f:metadata",),
        *(
            ("f:metadata", f"f:{name}")
            for name in (
                "name",
                "namespace",
                "creationTimestamp",
                "selfLink",
                "uid",
                "clusterName",
                "generation",
                "managedFields",
                "resourceVersion",
            )
        ),
    }
)


@dataclass(frozen=True, slots=True)
class Manager:
    """Which client, how and through which endpoint. Appliers are the same manager in every version."""

    name: str
    operation: str  # Apply or Update
    api_version: str
    subresource: str = ""

    @property
    def identity(self) -> tuple[str, str, str, str]:
        version = "" if self.operation == "Apply" else self.api_version
        return self.name, self.operation, version, self.subresource

    @staticmethod
    @lru_cache(maxsize=MANAGERS_KEPT)
    def known(name: str, operation: str, api_version: str, subresource: str) -> "Manager":
        """One for all that are alike: every write of every object reads and names the same few."""
        return Manager(name, operation, api_version, subresource)

    def shown(self) -> str:
        """As a conflict names it."""
        text = f'"{self.name}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return f"{text} using {self.api_version}" if self.operation == "Update" else text


@dataclass(frozen=True, slots=True)
class ManagedFields:
    """The fields one manager owns, and when it last took some."""

    manager: Manager
    fields: frozenset[Path]
    time: str

    def losing(self, lost: Iterable[Path]) -> "ManagedFields":
        left = self.fields.difference(lost)
        return self if len(left) == len(self.fields) else ManagedFields(self.manager, left, self.time)


def read_claims(obj: Json) -> list[ManagedFields]:
    """The claims an object carries; entries that cannot be read are dropped."""
    entries = (obj.get("metadata") or {}).get("managedFields")
    if not isinstance(entries, list):
        return []
    return [claim for entry in entries if (claim := _claim(entry)) is not None]


def _claim(entry: Any) -> ManagedFields | None:
    if not isinstance(entry, dict) or entry.get("operation") not in {"Apply", "Update"}:
        return None
    manager = Manager.known(
        str(entry.get("manager", "")),
        entry["operation"],
        str(entry.get("apiVersion", "")),
        str(entry.get("subresource", "")),
    )
    return ManagedFields(manager, read_fields(entry.get("fieldsV1")), str(entry.get("time", "")))


def write_claims(obj: Json, claims: list[ManagedFields]) -> None:
    meta = metadata(obj)
    kept = _capped([claim for claim in claims if claim.fields])
    if not kept:
        meta.pop("managedFields", None)
        return
    meta["managedFields"] = [_entry(claim) for claim in sorted(kept, key=_entry_order)]


def _entry_order(claim: ManagedFields) -> tuple[str, str, str, str, str]:
    manager = claim.manager
    return manager.operation, claim.time, manager.name, manager.api_version, manager.subresource


def _entry(claim: ManagedFields) -> Json:
    manager = claim.manager
    entry: Json = {"manager": manager.name, "operation": manager.operation, "apiVersion": manager.api_version}
    if claim.time:
        entry["time"] = claim.time
    entry["fieldsType"] = "FieldsV1"
    entry["fieldsV1"] = written(claim.fields)
    if manager.subresource:
        entry["subresource"] = manager.subresource
    return entry


def _capped(claims: list[ManagedFields]) -> list[ManagedFields]:
    updates = sorted((c for c in claims if c.manager.operation == "Update"), key=_entry_order)
    surplus = updates[: max(0, len(updates) - MAX_UPDATE_MANAGERS + 1)] if len(updates) > MAX_UPDATE_MANAGERS else []
    if not surplus:
        return claims
    rest = [claim for claim in claims if claim not in surplus]
    folded: dict[str, ManagedFields] = {}
    for claim in surplus:
        version = claim.manager.api_version
        before = folded.get(version)
        fields = claim.fields | before.fields if before else claim.fields
        folded[version] = ManagedFields(Manager(ANCIENT, "Update", version), fields, claim.time)
    return rest + list(folded.values())


NOT_THROUGH_STATUS = Ignored(SERVER_OWNED, (("f:spec",),))
NOT_THROUGH_CUSTOM_STATUS = Ignored(SERVER_OWNED, (("f:spec",), ("f:metadata",)))
NOT_BESIDE_STATUS = Ignored(SERVER_OWNED, (("f:status",),))
ONLY_THE_SERVERS = Ignored(SERVER_OWNED)


def ignored_for(served: Served, subresource: str) -> Ignored:
    """A field that this endpoint does not accept is not owned by its writers."""
    if subresource == "status":
        return NOT_THROUGH_CUSTOM_STATUS if served.custom else NOT_THROUGH_STATUS
    return NOT_BESIDE_STATUS if not subresource and served.traits.split_status else ONLY_THE_SERVERS


def own_after_update(write: Write, live: Json, obj: Json) -> None:
    """Record in `obj` that this manager wrote what differs from `live`; others lose what was changed under them."""
    served = write.served
    sent = metadata(obj).get("managedFields")
    if _is_reset(sent):
        metadata(obj).pop("managedFields", None)
        return
    claims = read_claims(obj) or read_claims(live)
    metadata(obj).pop("managedFields", None)
    if live and not claims:
        return  # an object that began without claims gets none before the first apply
    base = live or {"apiVersion": obj.get("apiVersion"), "kind": obj.get("kind"), **BORN_WITH.get(served.storage, {})}
    change = differ(schema_of(served), _seen(served, base), _seen(served, obj), builtin=not served.custom)
    change = change.without(ignored_for(served, write.subresource))
    manager = Manager.known(write.options.manager or UNKNOWN, "Update", served.api_version, write.subresource)
    now = "" if write.subresource == "scale" else write.core.now_text()  # the scale endpoint keeps no time
    write_claims(obj, taken(claims, manager, change, now))


def _seen(served: Served, obj: Json) -> Json:
    """The object as this version shows it, without its claims."""
    return _bare(served.view(obj) if served.view else obj)


def _bare(obj: Json) -> Json:
    meta = obj.get("metadata")
    if not isinstance(meta, dict) or "managedFields" not in meta:
        return obj
    return {**obj, "metadata": {key: value for key, value in meta.items() if key != "managedFields"}}


def _is_reset(sent: Any) -> bool:
    """An empty list, or one empty entry: the writer asks to forget all claims."""
    return isinstance(sent, list) and (not sent or sent == [{}])


def taken(claims: list[ManagedFields], manager: Manager, change: Difference, now: str) -> list[ManagedFields]:
    """The claims after `manager` made `change`."""
    won: Fields = change.added | change.modified
    lost = won | change.removed
    if not lost:
        return claims
    after = []
    mine = frozenset(won)
    for claim in claims:
        left = claim.losing(lost)
        if claim.manager.identity == manager.identity:
            mine |= left.fields
            if not won:  # it only removed: its claim shrinks, its time stays
                after.append(left)
        else:
            after.append(left)
    if won:
        after.append(ManagedFields(manager, mine, now))
    return after


def forget_new_times(old: Json, obj: Json) -> None:
    """A write that changed nothing but the times in managedFields changed nothing."""
    before, after = old["metadata"].get("managedFields"), obj["metadata"].get("managedFields")
    if before is None or after is None or before == after:
        return
    if same(_bare(old), _bare(obj)) and same(_timeless(before), _timeless(after)):
        obj["metadata"]["managedFields"] = before


def _timeless(entries: list[Json]) -> list[Json]:
    return [{key: value for key, value in entry.items() if key != "time"} for entry in entries]
