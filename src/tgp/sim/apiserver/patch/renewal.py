"""A fast path for the most frequent write: the holder of a Lease renews it.

A leader does so every two seconds, all day: without it that would be half of what a simulation computes. Whatever is
not exactly that, a refusal above all, goes the long way; what comes of both ways is the same, which a test compares.
"""

import re
from datetime import datetime

from tgp.sim.apiserver.core import Write
from tgp.sim.apiserver.field_manager import UNKNOWN
from tgp.sim.apiserver.json_value import Json
from tgp.sim.apiserver.verbs.create import CreateOutcome

STORAGE = "leases.coordination.k8s.io"
_MICRO_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z")
CONDITIONS = frozenset({"resourceVersion", "uid"})  # what a writer may say it saw


def renewal(write: Write, sent: Json) -> CreateOutcome | None:
    """None: it is something else."""
    existing = write.existing()
    if existing is None or write.subresource or write.options.dry_run:
        return None
    old = existing.obj
    renewed, entry = _renewed(old, sent), _claim(write, old)
    if renewed is None or entry is None:
        return None
    meta = {**old["metadata"], "managedFields": [{**entry, "time": write.core.now_text()}]}
    return CreateOutcome(write.core.commit(write.served, {**old, "metadata": meta, "spec": renewed}))


def _renewed(old: Json, sent: Json) -> Json | None:
    """The spec with its new time, if nothing else changes and what the writer saw is what stands there."""
    spec, seen = sent.get("spec"), sent.get("metadata") or {}
    if len(sent) > 2 or not isinstance(spec, dict) or not isinstance(seen, dict) or not seen.keys() <= CONDITIONS:
        return None
    if any(old["metadata"][name] != value for name, value in seen.items()):
        return None
    time = spec.get("renewTime")
    if not isinstance(time, str) or not _is_micro_time(time) or time == old["spec"].get("renewTime"):
        return None
    renewed = {**old["spec"], **spec}
    return renewed if renewed == {**old["spec"], "renewTime": time} else None


def _is_micro_time(text: str) -> bool:
    if _MICRO_TIME.fullmatch(text) is None:
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:  # the forty-fifth of a month
        return False
    return True


def _claim(write: Write, old: Json) -> Json | None:
    """The one who wrote all of it before, if that is who writes now."""
    claims: list[Json] = old["metadata"].get("managedFields") or []
    if len(claims) != 1:
        return None
    entry = claims[0]
    who = (entry.get("manager"), entry.get("operation"), entry.get("apiVersion"), entry.get("subresource", ""))
    writer = (write.options.manager or UNKNOWN, "Update", write.served.api_version, "")
    return entry if who == writer and "f:renewTime" in entry["fieldsV1"].get("f:spec", {}) else None
