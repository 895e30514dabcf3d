"""PUT, and the common end of every patch: from the stored object to the next one, or a refusal."""

from collections.abc import Callable

from tgp.sim.apiserver.admission.gate import admit_update
from tgp.sim.apiserver.core import Write
from tgp.sim.apiserver.field_manager import forget_new_times, own_after_update
from tgp.sim.apiserver.json_value import Json, copied
from tgp.sim.apiserver.kinds.table import strategy_for
from tgp.sim.apiserver.metadata_rules import mutable_problems, settle_namespace, tidy
from tgp.sim.apiserver.rbac import AccessAttempt, authorize, refusal
from tgp.sim.apiserver.status_errors import bad_request, invalid, not_found
from tgp.sim.apiserver.storage import StoredObject, key_of
from tgp.sim.apiserver.verbs.create import CreateOutcome, error_group, insert, read_as

Make = Callable[[Json | None], Json]  # stored object (or None) → the next one, in stored form, ours to change


def replace(write: Write, sent: Json) -> CreateOutcome:
    """PUT `sent` over the object of that name."""
    served, meta = write.served, sent.get("metadata") or {}
    if served.namespaced and meta.get("namespace") not in {None, "", write.namespace}:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if meta.get("name", "") != write.name:
        raise bad_request(_wrong_name(meta.get("name", ""), write.name))

    def make(live: Json | None) -> Json:
        obj = read_as(served, sent)
        settle_namespace(served, obj, write.namespace)
        narrowed = narrow(write, live, obj)
        own_after_update(write, live or {}, narrowed)
        return narrowed

    return change(write, make, uid=meta.get("uid") or "")


def _wrong_name(sent: str, wanted: str) -> str:
    if not sent:
        return f"the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
    return f"the name of the object ({sent}) does not match the name on the URL ({wanted})"


def narrow(write: Write, live: Json | None, obj: Json) -> Json:
    """Keep of `obj` what this endpoint accepts, so that no manager owns a field it could not write."""
    if live is None:
        return obj
    if write.subresource == "status":
        return write.core.semantics.keep_all_but_status(write.served, copied(live), obj)
    if not write.subresource:
        write.core.semantics.keep_status(write.served, live, obj)
    return obj


def change(write: Write, make: Make, *, uid: str = "", may_create: bool = False) -> CreateOutcome:
    """From the stored object to what `make` makes of it, stored too, unless nothing changed."""
    core, served = write.core, write.served
    key = key_of(write.namespace, write.name)
    existing = write.existing()
    if existing is None:
        if write.subresource or not (served.traits.create_on_update or may_create):
            raise not_found(served.group, served.plural, write.name)
        check_may_create(write)
        core.semantics.check_update_uid(served, uid, {}, key)
        obj = make(None)
        obj["metadata"].pop("resourceVersion", None)
        return insert(write, obj)
    old = existing.obj
    core.semantics.check_update_uid(served, uid, old, key)
    obj = make(old)
    sent_version = obj["metadata"].get("resourceVersion", "")
    core.semantics.check_resource_version(served, write.name, sent_version, old["metadata"]["resourceVersion"])
    finish(write, old, obj)
    admit_update(write, obj, old)
    if core.semantics.ends_with_update(served, old, obj):
        if write.options.dry_run:
            return CreateOutcome(StoredObject(obj, existing.revision), deleted=True)
        core.discard(served, old)  # watchers see it as it was last stored; the caller, as they made it
        return CreateOutcome(StoredObject(obj, existing.revision), deleted=True)
    if core.semantics.is_unchanged(old, obj):
        return CreateOutcome(existing)
    if write.options.dry_run:
        return CreateOutcome(StoredObject(obj, existing.revision))
    return CreateOutcome(core.commit(served, obj))


def check_may_create(write: Write) -> None:
    """Leave to patch or update is not leave to create."""
    served, user = write.served, write.ask.user
    attempt = AccessAttempt("create", served.group, served.plural, "", write.name, write.namespace)
    if not authorize(write.core, user, attempt).allowed:
        raise refusal(user, attempt)


def finish(write: Write, old: Json, obj: Json) -> None:
    """Give `obj` what the server decides, and refuse what it must not change."""
    core, served = write.core, write.served
    strategy = strategy_for(served)
    meta, before = obj["metadata"], old["metadata"]
    meta["resourceVersion"] = before["resourceVersion"]
    settle_namespace(served, obj, before.get("namespace", ""))
    strategy.prepare_update(write, obj, old)
    _carry_system_fields(before, meta)
    generation = before.get("generation")
    if write.subresource != "binding":  # a binding does not change the desired state
        generation = core.semantics.generation_after(served, old, obj)
    if generation:
        meta["generation"] = generation
    else:
        meta.pop("generation", None)
    tidy(obj)
    problems = 2 * core.semantics.metadata_change_problems(old, obj)  # the real one asks twice and says all
    problems += mutable_problems(served, obj) + strategy.update_problems(write, obj, old)
    if problems:
        raise invalid(error_group(served), served.kind, before["name"], problems)
    forget_new_times(old, obj)


def _carry_system_fields(before: Json, meta: Json) -> None:
    meta.setdefault("uid", before["uid"])
    meta["creationTimestamp"] = before["creationTimestamp"]
    if "deletionTimestamp" in before:
        meta["deletionTimestamp"] = before["deletionTimestamp"]
    else:
        meta.pop("deletionTimestamp", None)
    if "deletionGracePeriodSeconds" in before:
        meta.setdefault("deletionGracePeriodSeconds", before["deletionGracePeriodSeconds"])
    meta.pop("selfLink", None)
