"""Events are stored once, as core/v1, and shown as events.k8s.io/v1 too."""

from tgp.sim.apiserver.json_value import Json
from tgp.sim.apiserver.schemas.canonical import canonical

# core/v1 name → events.k8s.io/v1 name; what is not named here is called the same in both
RENAMED = (
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
)
TO_NEW = dict(RENAMED)
TO_CORE = {new: old for old, new in RENAMED}


def as_new_event(obj: Json) -> Json:
    shown = {TO_NEW.get(key, key): value for key, value in obj.items()}
    shown["apiVersion"], shown["kind"] = "events.k8s.io/v1", "Event"
    return canonical("events.k8s.io", "v1", "Event", shown)


def as_core_event(obj: Json) -> Json:
    stored = {TO_CORE.get(key, key): value for key, value in obj.items()}
    stored["apiVersion"], stored["kind"] = "v1", "Event"
    return stored
