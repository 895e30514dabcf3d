"""The machines of k8s-gpu-autoprovision, from its Helm values or its environment variables: one class and one pool.

Its chart writes variables such as GPU-WORKER-1_NAME: the name in capitals, dashes kept. Any prefix is read.
"""

from collections.abc import Mapping
from typing import Any

from tgp.core.classes.power_hosts import HostRules
from tgp.core.migration.field_notes import FieldNote, FieldOutcome, ManifestDraft, SourceDocument
from tgp.core.power.node_groups import (
    PARTS,
    POWER_NODES,
    BadNodeGroup,
    NodeGroup,
    manifests_of,
    of_environment,
    of_file,
)

SUBJECT = "nodeGroups"
BEHAVIOUR = (
    "A machine is cordoned and drained before its scaleDownEndpoint is called. It stays on for 10m (minOnTime).",
    "Each endpoint is called once per order, with the header webhook-id; the body names the machine.",
    "A machine that is not Ready within 10m (bootTimeout) counts as failed.",
    "A machine is switched on only for a pod that fits on it: taints, selectors and the GPUs of one machine count.",
)


def groups_of_rows(rows: Any, source: SourceDocument, field: str) -> tuple[list[NodeGroup], list[FieldNote]]:
    """Each row by itself: one bad row does not lose the others."""
    groups: dict[str, NodeGroup] = {}
    notes: list[FieldNote] = []
    if not isinstance(rows, list):
        return [], [_refused(source, field, f"is not a list of machines with {', '.join(PARTS.values())}")]
    for number, row in enumerate(rows):
        at = f"{field}[{number}]"
        try:
            known = {key: row[key] for key in PARTS.values() if key in row} if isinstance(row, Mapping) else row
            (group,) = of_file([known], at, HostRules())
        except BadNodeGroup as error:
            notes += [_refused(source, where.replace(f"{at}[0]", at), why) for where, why in error.problems]
            continue
        for key in row:
            if key not in PARTS.values():
                notes.append(_refused(source, f"{at}.{key}", "is no field of a machine"))
        if group.name in groups:
            notes.append(_refused(source, at, f"{group.name} is named twice; the first one was kept"))
        else:
            groups[group.name] = group
    return list(groups.values()), notes


def groups_of_variables(
    variables: Mapping[str, str], source: SourceDocument
) -> tuple[list[NodeGroup], list[FieldNote], set[str]]:
    """The machines, the notes, and the variables that belong to a machine."""
    groups: dict[str, NodeGroup] = {}
    notes: list[FieldNote] = []
    used: set[str] = set()
    prefixes = {name.removesuffix(part) for name in variables for part in PARTS if name.endswith(part)}
    for prefix in sorted(prefix for prefix in prefixes if prefix):
        own = {f"{prefix}{part}": variables[f"{prefix}{part}"] for part in PARTS if f"{prefix}{part}" in variables}
        try:
            made = of_environment(own, HostRules())
        except BadNodeGroup as error:
            used.update(own)
            for where, why in error.problems:
                field = where if where in own else next(iter(own))
                notes.append(_refused(source, field, f"{why}. The machine was left out: complete it"))
            continue
        used.update(own if made else ())
        for group in made:
            if group.name in groups:
                notes.append(_refused(source, f"{prefix}_NAME", f"{group.name} is named twice; the first was kept"))
            else:
                groups[group.name] = group
    return list(groups.values()), notes, used


def drafts_of(groups: list[NodeGroup], source: SourceDocument, namespace: str) -> list[ManifestDraft]:
    """The class and the pool `power-nodes`. They belong to the user: the operator does not keep them in step."""
    drafts = []
    for manifest in manifests_of(sorted(groups, key=lambda group: group.name), namespace):
        manifest["metadata"] = {key: value for key, value in manifest["metadata"].items() if key != "annotations"}
        drafts.append(ManifestDraft(source, manifest, came_from=f"{manifest['kind']} {POWER_NODES}"))
    for sentence in BEHAVIOUR:
        drafts[0].note(SUBJECT, FieldOutcome.CHANGED, sentence)
    return drafts


def _refused(source: SourceDocument, field: str, why: str) -> FieldNote:
    return FieldNote(source.file, source.line_of(field), SUBJECT, field, FieldOutcome.NOT_CONVERTED, f"{why}.")
