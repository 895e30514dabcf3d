"""What every verb works with: the store, the table of resources, the decisions, time and randomness."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from tgp.api.resource import Resource
from tgp.api.validation import PythonCheck
from tgp.ports.clock import Clock
from tgp.ports.entropy import Entropy
from tgp.sim.apiserver.identity import ApiUser
from tgp.sim.apiserver.json_value import Json
from tgp.sim.apiserver.options import PLAIN, WriteOptions
from tgp.sim.apiserver.registry import Registry, Served
from tgp.sim.apiserver.semantics import Semantics
from tgp.sim.apiserver.storage import ObjectStorage, StoredObject

CommitHook = Callable[[Served, Json | None, Json | None], None]


def time_text(moment: datetime) -> str:
    """As metav1.Time prints it: whole seconds, UTC."""
    return f"{moment.isoformat()[:19]}Z"  # a third of what strftime costs


@dataclass(slots=True)
class Core:
    clock: Clock
    entropy: Entropy
    store: ObjectStorage
    registry: Registry
    semantics: Semantics
    python_checks: Mapping[str, PythonCheck] | None = None  # CEL rules by their text; None: those of our own kinds
    hooks: list[CommitHook] = field(default_factory=list)  # called after each commit: (resource, before, after)

    def now(self) -> datetime:
        return self.clock.now()

    def now_text(self) -> str:
        return time_text(self.clock.now())

    def commit(self, served: Served, obj: Json) -> StoredObject:
        """Store a finished object; from here on it is shared and unchangeable."""
        before = self.store.get(served.storage, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        record = self.store.put(served.storage, obj)
        for hook in self.hooks:
            hook(served, before.obj if before else None, record.obj)
        return record

    def discard(self, served: Served, obj: Json) -> StoredObject:
        """Remove an object; `obj` is its last state."""
        meta = obj["metadata"]
        record = self.store.remove(served.storage, meta.get("namespace", ""), meta["name"], obj)
        for hook in self.hooks:
            hook(served, obj, None)
        return record


@dataclass(slots=True)
class Ask:
    """Who asks for a write, and what was said to them beside the answer."""

    user: ApiUser
    warnings: list[str] = field(default_factory=list)

    def warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)


@dataclass(frozen=True, slots=True)
class Write:
    """One write: on what, through which endpoint, how, and by which user."""

    core: Core
    served: Served
    ask: Ask
    namespace: str = ""
    name: str = ""
    subresource: str = ""  # empty: the object itself
    options: WriteOptions = PLAIN

    def through(self, subresource: str) -> "Write":
        return replace(self, subresource=subresource)

    def as_kind(self, group: str, version: str, kind: str) -> "Write":
        """The same write, of the kind a subresource speaks."""
        resource = Resource(group, version, self.subresource, kind, self.served.namespaced)
        return replace(self, served=Served(resource, kind.lower()))

    def existing(self) -> StoredObject | None:
        return self.core.store.get(self.served.storage, self.namespace, self.name)
