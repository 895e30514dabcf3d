"""POST: a new object, or the reason why not."""

from dataclasses import dataclass

from tgp.sim.apiserver.admission.gate import admit_create
from tgp.sim.apiserver.content import cannot_be
from tgp.sim.apiserver.core import Core, Write
from tgp.sim.apiserver.field_manager import own_after_update
from tgp.sim.apiserver.json_value import Json, copied, metadata, without_nulls
from tgp.sim.apiserver.kinds.table import strategy_for
from tgp.sim.apiserver.metadata_rules import (
    generated_name,
    metadata_problems,
    new_uid,
    settle_namespace,
    tidy,
    wipe_system_fields,
)
from tgp.sim.apiserver.registry import Served
from tgp.sim.apiserver.schemas.canonical import canonical
from tgp.sim.apiserver.status_errors import already_exists, invalid, plain_500
from tgp.sim.apiserver.storage import StoredObject
from tgp.sim.apiserver.undecodable import Undecodable
from tgp.sim.apiserver.unknown_fields import without_unknown

NAME_ATTEMPTS = 8  # as many as the real server tries when a generated name is taken


@dataclass(frozen=True, slots=True)
class CreateOutcome:
    record: StoredObject
    created: bool = False
    deleted: bool = False


def create(write: Write, sent: Json) -> CreateOutcome:
    """Create `sent`, which stays untouched, in the namespace of the write."""
    if (sent.get("metadata") or {}).get("resourceVersion") not in {None, "", "0"}:
        raise plain_500("resourceVersion should not be set on objects to be created")
    obj = read_as(write.served, sent)
    wipe_system_fields(obj)
    settle_namespace(write.served, obj, write.namespace)
    own_after_update(write, {}, obj)
    return insert(write, obj)


def decoded(served: Served, sent: Json) -> Json:
    """A private copy in stored form, with what decoding fills in."""
    obj: Json = without_unknown(served, copied(sent)) if served.custom else without_nulls(sent)
    if served.unview is not None:
        obj = served.unview(obj)
    obj["apiVersion"], obj["kind"] = stored_api_version(served), served.kind
    tidy(obj)
    strategy_for(served).default(served, obj)
    return in_stored_form(served, obj)


def in_stored_form(served: Served, obj: Json) -> Json:
    """A built-in object as its struct would be written; a custom one as it is."""
    if served.custom:
        return obj
    group, _, version = stored_api_version(served).rpartition("/")
    return canonical(group, version, served.kind, obj)


def read_as(served: Served, sent: Json) -> Json:
    """The same for a body that came whole: what cannot be decoded is a 400."""
    try:
        return decoded(served, sent)
    except Undecodable as error:
        raise cannot_be(served, sent, error) from None


def stored_api_version(served: Served) -> str:
    return "v1" if served.storage == "events" else served.api_version


def insert(write: Write, obj: Json) -> CreateOutcome:
    """The second half, shared with apply and PUT-that-creates: `obj` is ours to change."""
    core, served = write.core, write.served
    strategy = strategy_for(served)
    meta = metadata(obj)
    meta.pop("resourceVersion", None)
    meta["uid"] = new_uid(core.entropy)
    meta["creationTimestamp"] = core.now_text()
    prefix = meta.get("generateName", "") if not meta.get("name") else ""
    if prefix:
        meta["name"] = _free_name(core, served, prefix, meta.get("namespace", ""))
    admit_create(write, obj)
    strategy.prepare_create(write, obj)
    generation = core.semantics.first_generation(served)
    if generation is not None:
        meta["generation"] = generation
    problems = strategy.problems(write, obj)
    if served.custom or not problems:
        problems += metadata_problems(served, obj)
    if problems:
        raise invalid(error_group(served), served.kind, meta.get("name", ""), problems)
    taken = core.store.get(served.storage, meta.get("namespace", ""), meta["name"])
    if taken is not None:
        going = "deletionTimestamp" in taken.obj["metadata"]
        raise already_exists(served.group, served.plural, meta["name"], going=going)
    obj = in_stored_form(served, obj)
    if write.options.dry_run:
        return CreateOutcome(StoredObject(obj, 0), created=True)
    return CreateOutcome(core.commit(served, obj), created=True)


def error_group(served: Served) -> str:
    """Events are refused under the name of their old kind, for every endpoint."""
    return "" if served.storage == "events" else served.group


def _free_name(core: Core, served: Served, prefix: str, namespace: str) -> str:
    name = generated_name(prefix, core.entropy)
    for _ in range(NAME_ATTEMPTS - 1):
        if core.store.get(served.storage, namespace, name) is None:
            break
        name = generated_name(prefix, core.entropy)
    return name
