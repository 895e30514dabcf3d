"""GET of one object and of a list, with its pages, its versions and its selectors."""

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from tgp.sim.apiserver.core import Core
from tgp.sim.apiserver.json_value import Json
from tgp.sim.apiserver.options import EXACT, ListOptions
from tgp.sim.apiserver.registry import Served
from tgp.sim.apiserver.selectors import Predicate, parse_fields, parse_labels, predicate
from tgp.sim.apiserver.status_errors import Failure, bad_request, expired, not_found
from tgp.sim.apiserver.storage import StoredObject, key_of, walk

CONTINUE_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)
LIST_TOO_OLD = "The resourceVersion for the provided list is too old."
INCONSISTENT = -1  # the revision in a token that no longer promises one state


@dataclass(frozen=True, slots=True)
class ReadPage:
    """One page of a list, not yet encoded."""

    records: list[StoredObject]
    revision: int
    continues: str = ""
    remaining: int | None = None  # None: not reported (selectors in use, or nothing remains)


def get(core: Core, served: Served, namespace: str, name: str, resource_version: str = "") -> StoredObject:
    if resource_version not in {"", "0"}:
        wait_free_revision(core, read_revision(resource_version))
    found = core.store.get(served.storage, namespace, name)
    if found is None:
        raise not_found(served.group, served.plural, name)
    return found


def list_page(
    core: Core, served: Served, namespace: str, options: ListOptions, *, as_of: int | None = None
) -> ReadPage:
    """One page; `as_of` makes the server answer from an older state (a fault)."""
    wanted = selector_of(served, options)
    kind_storage = core.store.kind_storage(served.storage)
    revision, after_key = _start(core, served, options)
    if as_of is not None and not options.continues:
        revision = max(as_of, core.store.floor(served.storage))
    if revision >= core.store.revision:
        records, keys = kind_storage.records, kind_storage.keys
    else:
        records, keys = kind_storage.as_of(revision)
    one = _single(served, namespace, options, records)
    rows = one if one is not None else walk(records, keys, namespace, after_key)
    limit = (
        0 if options.resource_version == "0" and not options.continues else options.limit
    )  # from the cache: all of it
    return _cut(rows, wanted, limit, revision)


def _single(
    served: Served, namespace: str, options: ListOptions, records: dict[str, StoredObject]
) -> Iterator[tuple[str, StoredObject]] | None:
    """A list of one name is a lookup, not a walk; None when it is not such a list."""
    if options.continues or not options.field_selector or (served.namespaced and not namespace):
        return None
    name = parse_fields(options.field_selector, served).exact("metadata.name")
    if name is None:
        return None
    key = key_of(namespace, name)
    return iter([(key, records[key])] if key in records else [])


def _cut(rows: Iterator[tuple[str, StoredObject]], wanted: Predicate | None, limit: int, revision: int) -> ReadPage:
    found: list[StoredObject] = []
    for key, record in rows:
        if wanted is not None and not wanted(record.obj):
            continue
        found.append(record)
        if limit and len(found) == limit:
            rest = _rest(rows, wanted)
            if rest == 0:
                break
            remaining = rest if wanted is None else None
            return ReadPage(found, revision, _token(revision, key), remaining)
    return ReadPage(found, revision)


def _rest(rows: Iterator[tuple[str, StoredObject]], wanted: Predicate | None) -> int:
    """How many follow; with a selector only whether any key does, as etcd cannot know better."""
    if wanted is None:
        return sum(1 for _ in rows)
    return 1 if next(rows, None) is not None else 0


def selector_of(served: Served, options: ListOptions) -> Predicate | None:
    return predicate(parse_labels(options.label_selector), parse_fields(options.field_selector, served), served)


def _start(core: Core, served: Served, options: ListOptions) -> tuple[int, str]:
    """The revision to show, and the key after which to go on."""
    current = core.store.revision
    if options.continues:
        return _continue_from(core, served, options)
    if options.resource_version in {"", "0"}:
        return current, ""
    asked = read_revision(options.resource_version)
    wait_free_revision(core, asked)
    if options.match == EXACT or (options.limit and not options.match):
        if core.semantics.is_too_old(asked, core.store.floor(served.storage)):
            raise expired(LIST_TOO_OLD)
        return asked, ""
    return current, ""


def _continue_from(core: Core, served: Served, options: ListOptions) -> tuple[int, str]:
    revision, after_key = _read_token(options.continues)
    if options.resource_version not in {"", "0"}:
        raise bad_request("specifying resource version is not allowed when using continue")
    if revision == INCONSISTENT:
        return core.store.revision, after_key
    if core.semantics.is_too_old(revision, core.store.floor(served.storage)):
        failure = expired(CONTINUE_TOO_OLD)
        failure.metadata = {"continue": _token(INCONSISTENT, after_key)}
        raise failure
    return revision, after_key


def _token(revision: int, last_key: str) -> str:
    value = {"v": "meta.k8s.io/v1", "rv": revision, "start": f"{last_key}\0"}
    return base64.urlsafe_b64encode(msgspec.json.encode(value)).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, str]:
    try:
        value = msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        found = int(value["rv"]), str(value["start"]).rstrip("\0")
    except (binascii.Error, msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from None
    return found


def read_revision(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        why = f'Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise bad_request(f"invalid resource version: resourceVersion: {why}")
    return int(text)


def wait_free_revision(core: Core, asked: int) -> None:
    """A version from the future: the real server waits three seconds for it and then says this."""
    if asked > core.store.revision:
        raise too_large(asked, core.store.revision)


def too_large(asked: int, current: int) -> Failure:
    return Failure(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {asked}, current: {current}",
        {
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
        (("Retry-After", "1"),),
    )


def list_metadata(page: ReadPage, *, custom: bool = False) -> Json:
    """Lists of custom kinds say `continue` even when nothing follows."""
    meta: Json = {"resourceVersion": str(page.revision)}
    if page.continues or custom:
        meta["continue"] = page.continues
    if page.remaining:
        meta["remainingItemCount"] = page.remaining
    return meta
