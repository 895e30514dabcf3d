"""Which resources are served: the built-in table, and whatever CustomResourceDefinitions add while running."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tgp.api.resource import Resource
from tgp.sim.apiserver.json_value import Json
from tgp.sim.apiserver.storage import View

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CREATE_ONLY = ("create",)


@dataclass(frozen=True, slots=True)
class Subresource:
    name: str  # status, scale, eviction, …
    kind: str  # Pod for pods/status, Scale for deployments/scale, Eviction for pods/eviction
    verbs: tuple[str, ...] = ("get", "patch", "update")
    group: str = ""  # of the kind it speaks, when it is another than the resource's own
    version: str = ""


@dataclass(frozen=True, slots=True)
class KindTraits:
    """How a kind differs from the ordinary one."""

    counts_generations: bool = False  # metadata.generation is kept
    unconditional_update: bool = True  # PUT without resourceVersion is allowed
    create_on_update: bool = False  # PUT of a missing object creates it
    returns_deleted: bool = False  # DELETE answers with the object rather than a Status
    names: str = "subdomain"  # subdomain, label, label1035 or segment
    orphans_by_default: bool = False  # DELETE without a policy orphans the dependents
    split_status: bool = False  # a status subresource exists: the main resource cannot write .status


@dataclass(frozen=True, slots=True)
class Served:
    """One resource in one version."""

    resource: Resource
    singular: str
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    storage: str = ""  # the kind_storage; two versions of one kind share it
    traits: KindTraits = KindTraits()
    list_kind: str = ""
    crd: Json | None = field(default=None, repr=False, compare=False)  # the definition, for custom kinds
    schema: Json | None = field(default=None, repr=False, compare=False)  # openAPIV3Schema, for custom kinds
    view: View | None = field(default=None, repr=False, compare=False)  # stored form → this version's form
    unview: View | None = field(default=None, repr=False, compare=False)  # and back

    @property
    def group(self) -> str:
        return self.resource.group

    @property
    def version(self) -> str:
        return self.resource.version

    @property
    def plural(self) -> str:
        return self.resource.plural

    @property
    def kind(self) -> str:
        return self.resource.kind

    @property
    def namespaced(self) -> bool:
        return self.resource.namespaced

    @property
    def api_version(self) -> str:
        return self.resource.api_version

    @property
    def custom(self) -> bool:
        return self.crd is not None

    def subresource(self, name: str) -> Subresource | None:
        return next((sub for sub in self.subresources if sub.name == name), None)

    def shown(self, obj: Json) -> Json:
        """The stored object as this version shows it (not a copy where nothing differs)."""
        if self.view is not None:
            return self.view(obj)
        if obj.get("apiVersion") == self.api_version:
            return obj
        return {**obj, "apiVersion": self.api_version, "kind": self.kind}


class Registry:
    """Lookup by group, version and plural. Order is registration order, which discovery shows."""

    def __init__(self, builtin: Iterable[Served]) -> None:
        self._served: dict[tuple[str, str, str], Served] = {}
        self.changes = 0  # grows with every change, so that documents made from the table can be cached
        for served in builtin:
            self.add(served)

    def add(self, served: Served) -> None:
        self._served[served.group, served.version, served.plural] = served
        self.changes += 1

    def remove(self, group: str, plural: str) -> None:
        """Stop serving a resource in every version."""
        for key in [key for key in self._served if key[0] == group and key[2] == plural]:
            del self._served[key]
        self.changes += 1

    def find(self, group: str, version: str, plural: str) -> Served | None:
        return self._served.get((group, version, plural))

    def of(self, resource: Resource) -> Served:
        """The served resource of a typed one; a KeyError means it is not served (its CRD is not installed)."""
        return self._served[resource.group, resource.version, resource.plural]

    def by_kind(self, group: str, kind: str) -> Served | None:
        return next((s for s in self._served.values() if s.group == group and s.kind == kind), None)

    def versions(self, group: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(s.version for s in self._served.values() if s.group == group))

    def groups(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(s.group for s in self._served.values()))

    def __iter__(self) -> Iterator[Served]:
        return iter(self._served.values())
