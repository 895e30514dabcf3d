"""How `tgp init` shows what it found, what it would create, and what it created. No secret value is shown."""

from base64 import b64decode
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Group
from rich.text import Text

from tgp.api.crds import as_yaml
from tgp.api.nodeclass import REQUIRED_SETTINGS
from tgp.api.resource import CUSTOM_RESOURCE_DEFINITION, SECRET
from tgp.core.model.gpus import resource_name
from tgp.core.model.join import PUBLIC
from tgp.interfaces.cli.check_view import finding_lines
from tgp.interfaces.cli.next_step import as_called, next_lines
from tgp.interfaces.cli.output import wrapped
from tgp.services.documents.rent import PROOFS
from tgp.services.preflight_answers import ClusterFinding
from tgp.services.setup_plan import FIRST_NAME, PlannedObject, SetupAnswers

START = "---\n"
POOL_LABEL, EPHEMERAL = "tgp.io/nodepool", "tgp.io/ephemeral"


def found(findings: Sequence[ClusterFinding], width: int) -> Group:
    return Group(*finding_lines(findings, width), Text())


def gaps_found(gaps: Sequence[ClusterFinding], width: int) -> Group:
    """Every gap with its command, and the first command once more."""
    many = f"{len(gaps)} {'gap' if len(gaps) == 1 else 'gaps'}"
    lines = [*finding_lines(gaps, width), Text(), *wrapped(f"{many}. Nothing was created.", width, style="bold")]
    return Group(*lines, *next_lines(next((gap.command for gap in gaps if gap.command), "")))


def shown(planned: PlannedObject) -> dict[str, Any]:
    """As it is printed: secret values are replaced by their lengths."""
    manifest = dict(planned.manifest)
    if planned.resource is SECRET:
        manifest["data"] = {key: _masked(key, b64decode(value).decode()) for key, value in manifest["data"].items()}
    return manifest


def as_text(objects: Sequence[PlannedObject]) -> str:
    """YAML; the kinds are named only, because each has thousands of lines."""
    kinds = [each for each in objects if each.resource is CUSTOM_RESOURCE_DEFINITION]
    parts = [f"# {each.title}, as tgp crds print shows it\n" for each in kinds]
    for each in objects:
        if each.resource is CUSTOM_RESOURCE_DEFINITION:
            continue
        added = f"# added to the Secret that exists: {', '.join(each.adds)}\n" if each.adds else ""
        parts.append(f"{START}{added}{as_yaml(shown(each)).removeprefix(START)}")
    return "".join(parts)


def as_list(objects: Sequence[PlannedObject]) -> dict[str, Any]:
    """One object that kubectl reads, the kinds too."""
    return {"apiVersion": "v1", "kind": "List", "items": [shown(each) for each in objects]}


def progress(done: Sequence[str], current: str, left: Sequence[str]) -> str:
    """True at any moment while `current` is being created."""
    parts = [f"Created: {', '.join(done)}."] if done else []
    parts.append(f"Whether {current} was created is unknown.")
    parts += [f"Not created: {', '.join(left)}."] if left else []
    return " ".join([*parts, f"Run {as_called('tgp init')} again: it creates what is missing."])


def after(answers: SetupAnswers, *, operator_runs: bool, install: str, width: int) -> Iterator[Text]:
    """What is still needed, and a first Job."""
    required = REQUIRED_SETTINGS.get(answers.provider)
    if required is not None:
        words = f"Class {FIRST_NAME} is not Ready yet: {required[1]}. Set it: kubectl edit gpunodeclass {FIRST_NAME}"
        yield from wrapped(words, width, style="yellow")
    yield Text("A Job that gets a machine of the pool:")
    yield Text()
    yield Text(as_yaml(first_job(answers)).removeprefix(START))
    yield from next_lines("tgp status -w" if operator_runs else install)


def first_job(answers: SetupAnswers) -> dict[str, Any]:
    resource = resource_name(answers.gpu)
    image, command = PROOFS[resource]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "first", "namespace": answers.pool_namespace},
        "spec": {
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "nodeSelector": {POOL_LABEL: FIRST_NAME},
                    "tolerations": [{"key": EPHEMERAL, "operator": "Exists", "effect": "NoSchedule"}],
                    "containers": [
                        {"name": "gpu", "image": image, "command": [command], "resources": {"limits": {resource: 1}}}
                    ],
                }
            }
        },
    }


def _masked(key: str, value: str) -> str:
    if key.endswith(".crt"):
        return "a certificate"
    return value if key in PUBLIC else f"*** ({len(value)} characters)"
