"""Server-side apply: one manager's fields merged into the object; a conflict where another manager's would change."""

from dataclasses import dataclass
from typing import Any

import msgspec

from tgp.sim.apiserver.field_manager import (
    ManagedFields,
    Manager,
    ignored_for,
    read_claims,
    write_claims,
)
from tgp.sim.apiserver.json_value import Json, copied, metadata, same
from tgp.sim.apiserver.patch.fields import Path, shown_path, walk_key, with_named_parents
from tgp.sim.apiserver.patch.typed import differ, fields_of, merged, pruned, schema_of
from tgp.sim.apiserver.registry import Served
from tgp.sim.apiserver.status_errors import Cause, Failure, apply_conflict, bad_request

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
MAX_LAST_APPLIED_BYTES = 256 << 10
BEFORE_FIRST_APPLY = "before-first-apply"


@dataclass(frozen=True, slots=True)
class ApplyConflict:
    manager: Manager
    path: Path


@dataclass(frozen=True, slots=True)
class Application:
    """Which client applies, through which endpoint and when."""

    served: Served
    name: str
    subresource: str
    now: str
    force: bool = False

    @property
    def manager(self) -> Manager:
        return Manager(self.name, "Apply", self.served.api_version, self.subresource)

    def onto(self, live: Json | None, config: Json) -> Json:
        """The object after `config` was applied to `live`; raises the 409 of the fields that another manager owns.

        `live` None: the object is created by this apply.
        """
        if metadata(config).get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        schema = schema_of(self.served)
        base = _bare(live) if live is not None else {"apiVersion": config.get("apiVersion"), "kind": config.get("kind")}
        claims = _claims_before(self.served, live, self.now)
        queries = fields_of(schema, config)
        last = next((claim for claim in claims if claim.manager.identity == self.manager.identity), None)
        others = [claim for claim in claims if claim is not last]
        result: Json = merged(schema, copied(base), config)
        compared = result  # an emptied container counts as empty among owners, whatever it is stored as
        if last is not None:
            owned = with_named_parents(queries.union(*(claim.fields for claim in others)))
            gone = with_named_parents(last.fields) - owned
            compared = pruned(schema, result, gone)
            result = pruned(schema, result, gone, nulls=True) if self.served.custom else compared
        ignored = ignored_for(self.served, self.subresource)
        change = differ(schema, base, compared, builtin=not self.served.custom).without(ignored)
        others = self._settled(others, change.added | change.modified, base)
        mine = frozenset(ignored.strip(queries))
        time = self.now
        if live is not None and same(base, result):  # it took no value: no time either
            time = last.time if last is not None else ""
        left = [claim.losing(change.removed) for claim in others]
        write_claims(result, [*left, ManagedFields(self.manager, mine, time)])
        return result

    def _settled(self, others: list[ManagedFields], won: set[Path], base: Json) -> list[ManagedFields]:
        """The others' claims without what is won from them; a refusal where it may not be won."""
        found = [
            ApplyConflict(claim.manager, path) for claim in others for path in sorted(claim.fields & won, key=walk_key)
        ]
        if not self.force:
            found = [conflict for conflict in found if not self._is_own_past(conflict, base)]
            if found:
                raise conflict_failure(found)
        return [claim.losing(won) for claim in others]

    def _is_own_past(self, conflict: ApplyConflict, base: Json) -> bool:
        """Kubectl moving from client-side apply: fields its own last configuration set are not another manager's."""
        if self.name != "kubectl":
            return False
        text = ((base.get("metadata") or {}).get("annotations") or {}).get(LAST_APPLIED)
        if not isinstance(text, str):
            return False
        try:
            before = msgspec.json.decode(text)
        except msgspec.DecodeError:
            return False
        return conflict.path in fields_of(schema_of(self.served), before)


def _bare(live: Json) -> Json:
    meta = {key: value for key, value in live["metadata"].items() if key != "managedFields"}
    return {**live, "metadata": meta}


def _claims_before(served: Served, live: Json | None, now: str) -> list[ManagedFields]:
    """An object without managers belongs, in its present state, to its writers before the first apply."""
    if live is None:
        return []
    claims = read_claims(live)
    if claims:
        return claims
    nothing = {"apiVersion": live.get("apiVersion"), "kind": live.get("kind")}
    grown = differ(schema_of(served), nothing, _bare(live), builtin=not served.custom)
    fields = ignored_for(served, "").strip(grown.added)
    return [ManagedFields(Manager(BEFORE_FIRST_APPLY, "Update", served.api_version), frozenset(fields), now)]


def conflict_failure(conflicts: list[ApplyConflict]) -> Failure:
    ordered = sorted(conflicts, key=lambda c: (c.manager.shown(), walk_key(c.path)))
    causes = [
        Cause("FieldManagerConflict", f"conflict with {conflict.manager.shown()}", shown_path(conflict.path))
        for conflict in ordered
    ]
    if len(ordered) == 1:
        one = ordered[0]
        text = f"Apply failed with 1 conflict: conflict with {one.manager.shown()}: {shown_path(one.path)}"
        return apply_conflict(text, causes)
    lines: list[str] = []
    for name in dict.fromkeys(conflict.manager.shown() for conflict in ordered):
        lines.append(f"conflicts with {name}:")
        lines += [f"- {shown_path(conflict.path)}" for conflict in ordered if conflict.manager.shown() == name]
    return apply_conflict(f"Apply failed with {len(ordered)} conflicts: " + "\n".join(lines), causes)


def remember_last_applied(result: Json, config: Json, name: str) -> None:
    """The annotation of client-side apply follows, so that it can take over again."""
    if name != "kubectl":
        return
    annotations: Any = metadata(result).get("annotations")
    if not isinstance(annotations, dict) or LAST_APPLIED not in annotations:
        return
    clean: Json = copied(config)
    metadata(clean).get("annotations", {}).pop(LAST_APPLIED, None)
    text = msgspec.json.encode(clean).decode() + "\n"
    if len(text) <= MAX_LAST_APPLIED_BYTES:
        metadata(result)["annotations"] = {**annotations, LAST_APPLIED: text}
