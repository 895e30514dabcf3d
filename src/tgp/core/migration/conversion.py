"""Files of the three ancestors as tgp's own objects, with a note for every field that is not simply copied."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from tgp.api.common import DEFAULT_KEYS
from tgp.api.resource import GPU_NODE_CLASS, GPU_NODE_POOL, GPU_REQUEST, LEGACY_BUDGET, SECRET
from tgp.core.classes.manifest_validation import problems_of
from tgp.core.joining.talos.stream import Document, Path, UnreadableStream, plain_data, read_stream
from tgp.core.migration.budget_import import convert_budget
from tgp.core.migration.chart_values import ROOTS, class_of_config, convert_values
from tgp.core.migration.field_notes import FieldNote, FieldOutcome, ManifestDraft, SourceDocument, subject_of
from tgp.core.migration.kind_import import ImportSettings, convert_class, convert_pool, convert_request
from tgp.core.migration.nodegroup_import import drafts_of, groups_of_rows, groups_of_variables
from tgp.core.model.class_secrets import OPERATOR_SECRET
from tgp.core.power.node_groups import PARTS

EARLY_GROUPS = ("tgp.io", "tgp.solanyn.com")
WITH_VARIABLES = ("Deployment", "StatefulSet", "CronJob", "Pod")
SET_BY_SERVER = (
    "creationTimestamp",
    "deletionTimestamp",
    "finalizers",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
)
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_VARIABLE = re.compile(
    r"(?:export\s+|(?:docker\s.*?\s)?(?:-e|--env)[\s=]+)?([A-Za-z_][A-Za-z0-9_.-]*)=(.*?)\s*\\?\s*\Z"
)
_DOCKER = re.compile(r"docker\s|podman\s|-|[\w./:@-]+\s*\\?\Z")
_FOREIGN = {
    "CustomResourceDefinition": (FieldOutcome.UNNEEDED, "tgp brings its own kinds: tgp crds apply."),
    "TailscaleDevice": (FieldOutcome.UNNEEDED, "tgp asks the tailnet itself and needs no object for a device."),
}


@dataclass(frozen=True, slots=True)
class UnreadableFile:
    """A file, or a part of one, that nothing can be made of."""

    file: str
    line: int
    why: str  # what is wrong and what to do

    def __str__(self) -> str:
        return f"{self.file} line {self.line}: {self.why}" if self.line else f"{self.file}: {self.why}"


@dataclass(slots=True)
class ImportResult:
    drafts: list[ManifestDraft] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)  # for tgp's chart
    notes: list[FieldNote] = field(default_factory=list)  # of no object; the others are in the drafts
    unreadable: list[UnreadableFile] = field(default_factory=list)

    @property
    def all_notes(self) -> list[FieldNote]:
        """In the order of the files and their lines."""
        files = list(dict.fromkeys(note.file for note in (*self.notes, *self._of_drafts())))
        return sorted((*self.notes, *self._of_drafts()), key=lambda note: (files.index(note.file), note.line))

    def _of_drafts(self) -> Iterator[FieldNote]:
        for draft in self.drafts:
            yield from draft.notes

    @property
    def complete(self) -> bool:
        return not any(note.outcome is FieldOutcome.NOT_CONVERTED for note in self.all_notes)


def convert_files(texts: Sequence[tuple[str, str]], settings: ImportSettings) -> ImportResult:
    """`texts`: the name and the content of each file."""
    result = ImportResult()
    for name, text in texts:
        _FileConversion(name, settings, result).read(text)
    for draft in result.drafts:
        if draft.manifest.get("kind") != SECRET.kind:
            leave_out_invalid(draft)
    _name_apart(result.drafts)
    return result


class _FileConversion:
    def __init__(self, name: str, settings: ImportSettings, result: ImportResult) -> None:
        self._name = name
        self._settings = settings
        self._result = result

    def read(self, text: str) -> None:
        if not text.strip():
            self._unreadable(0, "is empty: give manifests, Helm values, or environment variables")
            return
        variables = _variables(text)
        if variables is not None:
            self._environment(variables, text)
            return
        try:
            documents = read_stream(text)
        except UnreadableStream as error:
            finding = error.finding
            where = f"{finding.path} " if finding.path else ""
            self._unreadable(finding.line, f"{where}{finding.message}. Correct this line, and run the command again")
            return
        for document in documents:
            if document.data is not None:
                self._document(document)

    def _document(self, document: Document) -> None:
        source = SourceDocument(self._name, document)
        data = plain_data(document.data)
        if not isinstance(data, dict):
            self._unreadable(document.line, "is not a mapping: give manifests, Helm values, or environment variables")
        elif "kind" in data or "apiVersion" in data:
            self._objects(data, source)
        elif known := sorted(ROOTS & set(data)):
            self._values(data, source, known)
        else:
            keys = ", ".join(str(key) for key in list(data)[:5])
            self._unreadable(
                document.line,
                f"has no kind, and none of its keys ({keys}) is one of the charts of tgp-operator, gwb-operator or "
                "k8s-gpu-autoprovision: leave this part out",
            )

    # -- manifests ---------------------------------------------------------------------------------------------------

    def _objects(self, data: dict[str, Any], source: SourceDocument) -> None:
        items = data.get("items")
        if str(data.get("kind", "")).endswith("List") and isinstance(items, list):
            for number, item in enumerate(items):
                if isinstance(item, dict):
                    place = SourceDocument(source.file, source.document, (*source.at, "items", number))
                    self._objects(item, place)
            return
        group = str(data.get("apiVersion") or "").partition("/")[0]
        kind = data.get("kind")
        draft = ManifestDraft(source, deepcopy(data))
        if group in EARLY_GROUPS and kind in (GPU_NODE_CLASS.kind, GPU_NODE_POOL.kind, GPU_REQUEST.kind):
            self._early(draft, str(kind))
        elif group == LEGACY_BUDGET.group and kind == LEGACY_BUDGET.kind:
            self._tidy(draft, namespaced=True)
            convert_budget(draft)
            self._result.drafts.append(draft)
        elif group in EARLY_GROUPS and kind == LEGACY_BUDGET.kind:  # tgp's own already
            self._tidy(draft, namespaced=True)
            self._result.drafts.append(draft)
        else:
            self._foreign(draft, str(kind))

    def _early(self, draft: ManifestDraft, kind: str) -> None:
        if draft.find("apiVersion") != GPU_NODE_CLASS.api_version:
            draft.note("apiVersion", FieldOutcome.RENAMED, f"is now {GPU_NODE_CLASS.api_version}.")
            draft.put("apiVersion", GPU_NODE_CLASS.api_version)
        self._tidy(draft, namespaced=kind != GPU_NODE_CLASS.kind)
        made: ManifestDraft | None = None
        if kind == GPU_NODE_CLASS.kind:
            convert_class(draft, self._settings)
        elif kind == GPU_NODE_POOL.kind:
            convert_pool(draft)
        else:
            made = convert_request(draft, self._settings)
        self._result.drafts += [*self._secrets(draft), *((made,) if made is not None else ()), draft]

    def _secrets(self, draft: ManifestDraft) -> Iterator[ManifestDraft]:
        """With the keys that an object had inline, if any."""
        if not draft.secret:
            return
        manifest = {
            "apiVersion": SECRET.api_version,
            "kind": SECRET.kind,
            "metadata": {"namespace": self._settings.operator_namespace, "name": draft.secret_name},
            "stringData": draft.secret,
        }
        yield ManifestDraft(draft.source, manifest, came_from=draft.subject)

    def _tidy(self, draft: ManifestDraft, *, namespaced: bool) -> None:
        """Without what the API server sets, and with a namespace."""
        if draft.take("status") is not None:
            draft.note("status", FieldOutcome.UNNEEDED, "the operator writes it.")
        meta = draft.find("metadata")
        if not isinstance(meta, dict):
            return
        if dropped := [name for name in SET_BY_SERVER if meta.pop(name, None) is not None]:
            draft.note("metadata", FieldOutcome.UNNEEDED, f"set by the API server: {', '.join(dropped)}.")
        annotations = meta.get("annotations")
        if isinstance(annotations, dict) and annotations.pop(LAST_APPLIED, None) is not None and not annotations:
            del meta["annotations"]
        if namespaced and not meta.get("namespace"):
            meta["namespace"] = self._settings.namespace
            draft.note(
                "metadata",
                FieldOutcome.CHANGED,
                f"it had no namespace, and tgp's kind has one: {self._settings.namespace} (-n sets another).",
            )
        if not namespaced and meta.pop("namespace", None) is not None:
            draft.note("metadata.namespace", FieldOutcome.UNNEEDED, "a class belongs to no namespace.")

    def _foreign(self, draft: ManifestDraft, kind: str) -> None:
        if kind in WITH_VARIABLES and (variables := _env_of(draft.manifest)):
            groups, notes, _ = groups_of_variables(variables, draft.source)
            if groups or notes:
                self._result.notes += notes
                self._machines(groups, draft.source)
                draft.note("", FieldOutcome.UNNEEDED, "its machines were taken over; tgp has an operator of its own.")
                self._result.notes += draft.notes
                return
        if kind == "ConfigMap" and isinstance(config := (draft.find("data") or {}).get("config.yaml"), str):
            self._config_map(draft, config)
            return
        unknown = (
            f"tgp has no conversion for this kind, and it is not in the output: apply it from {self._name} as before, "
            "if you still need it."
        )
        outcome, message = _FOREIGN.get(kind, (FieldOutcome.NOT_CONVERTED, unknown))
        if kind == "Secret":
            message = (
                f"Secrets are not copied. tgp reads Secrets in namespace {self._settings.operator_namespace} only: "
                "create it there."
            )
        draft.note("", outcome, message)
        self._result.notes += draft.notes

    def _config_map(self, draft: ManifestDraft, config: str) -> None:
        try:
            data = plain_data(read_stream(config)[0].data)
        except UnreadableStream as error:
            line = draft.source.line_of("data") + error.finding.line
            self._unreadable(line, f"data[config.yaml] {error.finding.message}. Correct it, and run the command again")
            return
        self._config(data, draft.source, "")

    # -- Helm values and variables -----------------------------------------------------------------------------------

    def _values(self, data: dict[str, Any], source: SourceDocument, known: Sequence[str]) -> None:
        made = convert_values(data, source)
        self._result.values |= made.values
        self._result.notes += made.notes
        if "nodeGroups" in known:
            groups, notes = groups_of_rows(data["nodeGroups"], source, "nodeGroups")
            self._result.notes += notes
            self._machines(groups, source)
        if "config" in known:
            self._config(data["config"], source, "config")

    def _config(self, config: Any, source: SourceDocument, field_path: str) -> None:
        draft, notes = class_of_config(config, source, field_path)
        self._result.notes += notes
        if draft is not None:
            convert_class(draft, self._settings)
            self._result.drafts += [*self._secrets(draft), draft]

    def _machines(self, groups: list[Any], source: SourceDocument) -> None:
        if groups:
            self._result.drafts += drafts_of(groups, source, self._settings.operator_namespace)

    def _environment(self, variables: Mapping[str, tuple[int, str]], text: str) -> None:
        lines: dict[Path, int] = {(name,): line for name, (line, _) in variables.items()}
        source = SourceDocument(self._name, Document(text, 1, lines))
        groups, notes, used = groups_of_variables({name: value for name, (_, value) in variables.items()}, source)
        self._result.notes += notes
        self._machines(groups, source)
        for name, (line, _) in variables.items():
            if name in used:
                continue
            message = "is no variable of a machine: tgp's settings are in docs/operator.md."
            if name in DEFAULT_KEYS.values():
                message = (
                    f"is an API key: put it into Secret {OPERATOR_SECRET} in namespace "
                    f"{self._settings.operator_namespace}. tgp init asks for it."
                )
            self._result.notes.append(
                FieldNote(self._name, line, "environment", name, FieldOutcome.NOT_CONVERTED, message)
            )

    def _unreadable(self, line: int, why: str) -> None:
        self._result.unreadable.append(UnreadableFile(self._name, line, f"{why}."))


def _variables(text: str) -> dict[str, tuple[int, str]] | None:
    """Of a file of variables, or of a docker command; None: it is something else."""
    found: dict[str, tuple[int, str]] = {}
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        match = _VARIABLE.match(line)
        if match is not None:
            found[match[1]] = (number, _unquoted(match[2]))
        elif not _DOCKER.match(line):
            return None
    of_machines = any(name.endswith(part) for name in found for part in PARTS)
    return found if of_machines or any(name in DEFAULT_KEYS.values() for name in found) else None


def _unquoted(value: str) -> str:
    try:
        return " ".join(shlex.split(value))
    except ValueError:  # a quote that does not end: part of the value
        return value


def _env_of(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The variables of every container."""
    found: dict[str, str] = {}
    waiting: list[Any] = [manifest.get("spec")]
    while waiting:
        value = waiting.pop()
        if not isinstance(value, dict):
            continue
        for container in value.get("containers") or ():
            for variable in (container.get("env") or ()) if isinstance(container, dict) else ():
                if isinstance(variable, dict) and isinstance(variable.get("value"), str):
                    found[str(variable.get("name"))] = variable["value"]
        waiting += [value.get("template"), value.get("spec"), value.get("jobTemplate")]
    return found


def _name_apart(drafts: Sequence[ManifestDraft]) -> None:
    """Two objects of one kind and name: the second would silently replace the first."""
    seen: dict[str, ManifestDraft] = {}
    for draft in drafts:
        subject = subject_of(draft.manifest)
        first = seen.setdefault(subject, draft)
        if first is draft:
            continue
        if first.manifest == draft.manifest:
            draft.note("", FieldOutcome.UNNEEDED, "it is in the output already, with the same content.")
        else:
            where = f"{first.source.file} line {first.source.document.line}"
            draft.note(
                "metadata.name",
                FieldOutcome.NOT_CONVERTED,
                f"{where} has another {subject}: rename one of the two, and import both again.",
            )
        draft.written = False


MOST_ROUNDS = 8  # a field that is left out may uncover the next problem


def leave_out_invalid(draft: ManifestDraft) -> None:
    """Remove every field that is not accepted, with a note for each; without the field it must be valid."""
    for _ in range(MOST_ROUNDS):
        problems = problems_of(draft.manifest)
        if not problems:
            return
        removed = False
        for path, detail in reversed(dict.fromkeys((problem.path, problem.detail) for problem in problems)):
            if path.startswith("spec.") and draft.find(path) is not None:  # the last item of a list goes first
                draft.note(path, FieldOutcome.NOT_CONVERTED, f"{_ended(detail)} It was left out.")
                draft.take(path)
                removed = True
        if not removed:
            break
    for problem in problems_of(draft.manifest):
        where = problem.path or "metadata"
        draft.note(
            where, FieldOutcome.NOT_CONVERTED, f"{_ended(problem.detail)} The object was left out because of it."
        )
    draft.written = False


def _ended(detail: str) -> str:
    return detail if detail.endswith((".", "?")) else f"{detail}."
