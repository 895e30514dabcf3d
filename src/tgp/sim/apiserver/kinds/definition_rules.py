"""CustomResourceDefinitions: names filled in, form checked, accepted at once."""

from tgp.api import validation
from tgp.sim.apiserver.core import Core, Write
from tgp.sim.apiserver.json_value import Json, copied, list_at, mapping_at
from tgp.sim.apiserver.kinds.definitions import STORAGE
from tgp.sim.apiserver.kinds.strategy import Strategy
from tgp.sim.apiserver.names import is_dns_1035_label
from tgp.sim.apiserver.problems import invalid_value, not_supported, required
from tgp.sim.apiserver.registry import Served
from tgp.sim.apiserver.status_errors import Cause


class DefinitionStrategy(Strategy):
    def default(self, served: Served, obj: Json) -> None:
        spec = obj.setdefault("spec", {})
        names = spec.setdefault("names", {})
        if names.get("kind"):
            names.setdefault("singular", names["kind"].lower())
            names.setdefault("listKind", f"{names['kind']}List")
        spec.setdefault("conversion", {}).setdefault("strategy", "None")

    def prepare_create(self, write: Write, obj: Json) -> None:
        obj["status"] = established(write.core, obj, {})

    def prepare_update(self, write: Write, obj: Json, old: Json) -> None:
        if not write.subresource:
            obj["status"] = established(write.core, obj, mapping_at(old, "status"))

    def problems(self, write: Write, obj: Json) -> list[Cause]:
        spec, names = mapping_at(obj, "spec"), mapping_at(obj, "spec", "names")
        found: list[Cause] = []
        found += [required(f"spec.{name}") for name in ("group", "scope") if not spec.get(name)]
        found += [required(f"spec.names.{name}") for name in ("plural", "kind") if not names.get(name)]
        for name in ("plural", "singular"):
            if names.get(name):
                found += [
                    invalid_value(f"spec.names.{name}", names[name], why) for why in is_dns_1035_label(names[name])
                ]
        wanted = f"{names.get('plural', '')}.{spec.get('group', '')}"
        if write.existing() is None and obj["metadata"].get("name") != wanted:
            why = 'must be spec.names.plural+"."+spec.group'
            found.append(invalid_value("metadata.name", obj["metadata"].get("name", ""), why))
        if spec.get("scope") and spec["scope"] not in {"Cluster", "Namespaced"}:
            found.append(not_supported("spec.scope", spec["scope"], ("Cluster", "Namespaced")))
        return found + _version_problems(list_at(spec, "versions"))

    def update_problems(self, write: Write, obj: Json, old: Json) -> list[Cause]:
        found = self.problems(write, obj)
        for name in ("group", "scope"):
            if obj["spec"].get(name) != old["spec"].get(name):
                found.append(invalid_value(f"spec.{name}", obj["spec"].get(name), "field is immutable"))
        return found


def _version_problems(versions: list[Json]) -> list[Cause]:
    stored = sum(1 for version in versions if version.get("storage"))
    found: list[Cause] = []
    if stored != 1:
        why = "must have exactly one version marked as storage version"
        found.append(invalid_value("spec.versions", versions, why))
    if not stored:
        found.append(invalid_value("status.storedVersions", [], "must have at least one stored version"))
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}].schema.openAPIV3Schema"
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if not isinstance(schema, dict):
            found.append(required(path, "schemas are required"))
            continue
        # a definition with one version keeps its schema where the oldest form of the kind had it
        found += _schema_problems(schema, "spec.validation.openAPIV3Schema" if len(versions) == 1 else path)
    return found


def _schema_problems(schema: Json, path: str) -> list[Cause]:
    """Structural: every part says its type, and a default is what its own schema would take."""
    found: list[Cause] = []
    free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if not schema.get("type") and not free:
        found.append(required(f"{path}.type", "must not be empty for specified object fields"))
    elif "default" in schema and validation.validate({**schema, "x-kubernetes-validations": []}, schema["default"]):
        found.append(invalid_value(f"{path}.default", schema["default"], "must be valid by the schema it belongs to"))
    for name, part in mapping_at(schema, "properties").items():
        if path.endswith("openAPIV3Schema") and name == "metadata":
            continue
        found += _schema_problems(part, f"{path}.properties[{name}]")
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            found += _schema_problems(schema[name], f"{path}.{name}")
    return found


def established(core: Core, obj: Json, before: Json) -> Json:
    """The status after the naming and establishing controllers have seen it; here they are always instant."""
    now = core.now_text()
    reason, message = name_conflict(core, obj)
    if reason:
        verdicts = [("NamesAccepted", "False", reason, message), ("Established", "False", "NotAccepted", NOT_ACCEPTED)]
    else:
        verdicts = [("NamesAccepted", "True", "NoConflicts", "no conflicts found"), ("Established", "True", *INITIAL)]
    stored = list(list_at(before, "storedVersions"))
    for version in list_at(obj, "spec", "versions"):
        if version.get("storage") and version.get("name") not in stored:
            stored.append(version["name"])
    return {
        "conditions": [_condition(verdict, list_at(before, "conditions"), now) for verdict in verdicts],
        "acceptedNames": copied(mapping_at(obj, "spec", "names")) if not reason else {"kind": "", "plural": ""},
        "storedVersions": stored,
    }


NOT_ACCEPTED = "not all names are accepted"
INITIAL = ("InitialNamesAccepted", "the initial names have been accepted")


def name_conflict(core: Core, obj: Json) -> tuple[str, str]:
    """The reason and the words when another definition of the group has one of the names; empty when none has."""
    group, own = obj["spec"].get("group"), obj["metadata"].get("name")
    others = [
        mapping_at(record.obj, "status", "acceptedNames")
        for _, record in core.store.kind_storage(STORAGE).range("")
        if record.obj["spec"]["group"] == group and record.obj["metadata"]["name"] != own
    ]
    resources = {name for names in others for name in _resource_names(names)}
    kinds = {name for names in others for name in (names.get("kind"), names.get("listKind")) if name}
    wanted = mapping_at(obj, "spec", "names")
    for reason, names, taken in (
        ("PluralConflict", [wanted.get("plural")], resources),
        ("SingularConflict", [wanted.get("singular")], resources),
        ("ShortNamesConflict", list_at(wanted, "shortNames"), resources),
        ("KindConflict", [wanted.get("kind")], kinds),
        ("ListKindConflict", [wanted.get("listKind")], kinds),
    ):
        for name in names:
            if name and name in taken:
                return reason, f'"{name}" is already in use'
    return "", ""


def _resource_names(names: Json) -> list[str]:
    return [name for name in (names.get("plural"), names.get("singular"), *list_at(names, "shortNames")) if name]


def _condition(verdict: tuple[str, ...], before: list[Json], now: str) -> Json:
    kind, status, reason, message = verdict
    earlier = next((row for row in before if row.get("type") == kind and row.get("status") == status), {})
    since = earlier.get("lastTransitionTime", now)
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}
