"""CustomResourceDefinitions: once stored, served; once deleted, their objects go first."""

from tgp.api import validation
from tgp.api.resource import CUSTOM_RESOURCE_DEFINITION, Resource
from tgp.sim.apiserver.core import Core
from tgp.sim.apiserver.json_value import Json, copied, list_at, same
from tgp.sim.apiserver.registry import KindTraits, Served, Subresource
from tgp.sim.apiserver.status_errors import Failure
from tgp.sim.apiserver.storage import StoredObject

STATUS_VERBS = ("get", "patch", "update")
CUSTOM_VERBS = (
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
)  # as discovery lists them
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
STORAGE = "customresourcedefinitions.apiextensions.k8s.io"


def follow_definitions(core: Core) -> None:
    """Serve what each stored definition defines, from its commit on; stop when it is gone."""

    def after(served: Served, before: Json | None, obj: Json | None) -> None:
        if served.custom and obj is None:
            _finish_cleanup(core, served)
        if served.kind != "CustomResourceDefinition" or served.custom:
            return
        if before is not None:
            core.registry.remove(before["spec"]["group"], before["spec"]["names"]["plural"])
        if obj is not None and is_established(obj):
            for row in served_versions(obj):
                core.registry.add(row)
                core.store.kind_storage(row.storage)  # its watch history begins here
            _reread(core, obj)

    core.hooks.append(after)


def is_established(crd: Json) -> bool:
    rows = list_at(crd, "status", "conditions")
    return any(row.get("type") == "Established" and row.get("status") == "True" for row in rows)


def _reread(core: Core, crd: Json) -> None:
    """Objects stored under an older schema are read with the new one: pruned and defaulted, under their old version."""
    stored = next((row for row in served_versions(crd) if row.schema is not None), None)
    if stored is None or stored.schema is None:
        return
    records = core.store.kind_storage(stored.storage).records
    for key, record in list(records.items()):
        shown = validation.default(stored.schema, validation.prune(stored.schema, record.obj))
        if not same(shown, record.obj):
            records[key] = StoredObject(dict(shown), record.revision)


def _finish_cleanup(core: Core, served: Served) -> None:
    """The last object of a definition that waits for its end lets it go."""
    found = core.store.get(STORAGE, "", f"{served.plural}.{served.group}")
    if (
        found is None
        or "deletionTimestamp" not in found.obj["metadata"]
        or core.store.kind_storage(served.storage).records
    ):
        return
    definitions = core.registry.of(CUSTOM_RESOURCE_DEFINITION)
    obj: Json = copied(found.obj)
    left = [name for name in obj["metadata"].get("finalizers") or [] if name != CLEANUP]
    if left:
        obj["metadata"]["finalizers"] = left
        core.commit(definitions, obj)
    else:
        core.discard(definitions, obj)


def check_kind_accepts(core: Core, served: Served) -> None:
    """Nothing new is made of a kind that is on its way out."""
    if not served.custom:
        return
    found = core.store.get(STORAGE, "", f"{served.plural}.{served.group}")
    if found is not None and "deletionTimestamp" in found.obj["metadata"]:
        text = (
            "create not allowed while custom resource definition is terminating is not supported on resources of kind "
            f'"{served.plural}.{served.group}"'
        )
        raise Failure(405, "MethodNotAllowed", text, {"group": served.group, "kind": served.plural})


def served_versions(crd: Json) -> list[Served]:
    spec = crd["spec"]
    names = spec["names"]
    definition = copied(crd)
    return [_served(definition, spec, names, version) for version in spec["versions"] if version.get("served")]


def _served(crd: Json, spec: Json, names: Json, version: Json) -> Served:
    return Served(
        verbs=CUSTOM_VERBS,
        resource=Resource(
            spec["group"], version["name"], names["plural"], names["kind"], namespaced=spec["scope"] == "Namespaced"
        ),
        singular=names.get("singular") or names["kind"].lower(),
        subresources=_subresources(version, names["kind"]),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        storage=f"{names['plural']}.{spec['group']}",
        traits=KindTraits(
            counts_generations=True,
            unconditional_update=False,
            split_status="status" in (version.get("subresources") or {}),
        ),
        list_kind=names.get("listKind") or f"{names['kind']}List",
        crd=crd,
        schema=(version.get("schema") or {}).get("openAPIV3Schema"),
    )


def _subresources(version: Json, kind: str) -> tuple[Subresource, ...]:
    declared = version.get("subresources") or {}
    found = []
    if "status" in declared:
        found.append(Subresource("status", kind, STATUS_VERBS))
    if "scale" in declared:
        found.append(Subresource("scale", "Scale", STATUS_VERBS, "autoscaling", "v1"))
    return tuple(found)
