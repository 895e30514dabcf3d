"""The admission policies of our kinds, the controllers and `tgp check -f` have one opinion of every manifest."""

import copy
import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.amounts import amount
from tests.contracts.kinds.door import Door, side_by_side
from tests.contracts.kinds.manifests import Maker
from tgp.api.decoding import decode
from tgp.api.kinds import CLASS, KINDS, POOL, REQUEST, Kind
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.api.resource import VALIDATING_ADMISSION_POLICY, VALIDATING_ADMISSION_POLICY_BINDING
from tgp.core.classes.manifest_validation import problems_of
from tgp.core.classes.nodeclass import namespace_allowed
from tgp.core.classes.semantic_validation import RULES, request_against_class
from tgp.core.joining.talos.variables import VARIABLES
from tgp.core.model import gpus
from tools.kind_policies import ALWAYS, plain
from tools.kind_policies import CLASS as OF_CLASSES
from tools.kind_policies import POOL as OF_POOLS
from tools.kind_policies import REQUEST as OF_REQUESTS

MANIFESTS = amount(300, 2000, "TGP_POLICY_MANIFESTS")
PAIRS = amount(60, 500)  # of a request or pool and a class
SEED = os.environ.get("TGP_SEED", "1")
COVERED = frozenset(rule.policy for rule in RULES if rule.policy)
LABEL = {"policies": "looked-at"}  # other tests of this folder ask the same API server, without policies
EFFECT_BOUND = 300  # looks, a tenth of a second apart
KINDS_TRIED = (CLASS, CLASS, POOL, REQUEST)


@dataclass
class Verdicts:
    disagreements: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)  # by rule
    accepted: int = 0
    by_crd: int = 0
    by_controller: int = 0  # what only a controller and `tgp check -f` refuse


def bound(objects: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for each in objects:
        if each["kind"].endswith("Binding"):
            each["spec"]["matchResources"] = {"objectSelector": {"matchLabels": LABEL}}
        yield each


@pytest.fixture(scope="module")
def policies(door: Door) -> Iterator[bool]:
    """Whether there are any: an older Kubernetes knows no such kind."""
    if not door.newest:
        yield False
        return
    objects = list(bound(plain(ALWAYS, "tgp-system")))
    for each in objects:
        answer = door.call("POST", _path(each), each)
        assert answer.accepted, answer.message
    probe = labelled(Maker(REQUEST, "probe").whole(density=0.05))
    probe["spec"]["gpuType"] = "Nonsense9"
    probe["spec"].pop("offer", None)
    for _ in range(EFFECT_BOUND):
        if not door.try_create(REQUEST, probe).accepted:
            break
        time.sleep(0.1)
    else:
        raise AssertionError("the policies have no effect")
    yield True
    for each in objects:
        door.call("DELETE", f"{_path(each)}/{each['metadata']['name']}")


def _path(each: dict[str, Any]) -> str:
    binding = each["kind"].endswith("Binding")
    return (VALIDATING_ADMISSION_POLICY_BINDING if binding else VALIDATING_ADMISSION_POLICY).path()


def labelled(manifest: dict[str, Any]) -> dict[str, Any]:
    manifest["metadata"]["labels"] = {**manifest["metadata"].get("labels", {}), **LABEL}
    return manifest


# -- manifests -------------------------------------------------------------------------------------------------------

GOOD_GPUS = ("RTX4090", "nvidia A100", "a100-sxm", "NVIDIA GeForce RTX 4090", "H100", "AMD MI300X", "l40s")
BAD_GPUS = ("RTX4099", "nvidia", "geforce", "Quantum9", "A100x", "XA100", "nvidia-nvidia-A100", "100")
LINES = (
    *(f"a{number}: {{{{.{name}}}}}" for number, name in enumerate(VARIABLES)),
    "b: {{ .NodeName }}",
    "c: '{{\t.Hostname\t}}'",
    "d: plain",
    "e: '{ }'",
    "f: '{{\"{{\"}}'",
    "g: '{{.NodeName}}{{.NodePool}}'",
    "h: 'a{ {{.NodeName}} }'",
    "i: |",
    "# {{nothing}} in a comment",
    "j: x # {{.Nothing}}",
)
BAD_LINES = (
    "k: {{.NodeNam}}",
    "l: '{{if .X}}'",
    "m: '{{.NodeName | quote}}'",
    "n: '{{}}'",
    "o: '{{.NodeName'",
    "p: '{{{.NodeName}}'",
    "q: '{{.Values.x}} {{.NodeName}}'",
    "r: '{{NodeName}}'",
)
IMAGES = ("v1.10.5", "ghcr.io/siderolabs/talos:v1.14.0-alpha.1", "v1.9.9", "v1.15.0", "v2.10.0", "v1.12.0")


def changed(kind: Kind, made: dict[str, Any], choice: random.Random) -> dict[str, Any]:
    """Of a manifest that the CRD accepts: values that only policies and controllers judge."""
    spec = made["spec"]
    gpu = choice.choice(GOOD_GPUS if choice.random() < 0.7 else BAD_GPUS)
    if choice.random() < 0.2:
        spec.setdefault("limits", {}).setdefault("resources", {})["usd" if choice.random() < 0.5 else "cpu"] = 3
    if kind is POOL:
        row = {"key": "tgp.io/gpu-type", "operator": choice.choice(("In", "NotIn")), "values": [gpu]}
        spec.setdefault("template", {}).setdefault("spec", {})["requirements"] = [row]
        return made
    if kind is REQUEST:
        spec.pop("limits", None)
        if "gpuType" in spec:
            spec["gpuType"] = gpu
        if "talosConfig" in spec and choice.random() < 0.5:
            spec["talosConfig"]["image"] = choice.choice(IMAGES)
        return made
    spec.setdefault("instanceRequirements", {})["gpuTypes"] = [gpu]
    talos = spec.setdefault("talosConfig", {})
    if choice.random() < 0.4:
        talos["image"] = choice.choice(IMAGES)
    if choice.random() < 0.6:
        talos.pop("machineConfigSecretRef", None)
        lines = [choice.choice(LINES) for _ in range(choice.randrange(1, 5))]
        lines += [choice.choice(BAD_LINES)] if choice.random() < 0.4 else []
        choice.shuffle(lines)
        talos["machineConfigTemplate"] = "\n".join(dict.fromkeys(lines))
    return made


def manifests(count: int) -> Iterator[tuple[Kind, dict[str, Any]]]:
    choice = random.Random(f"policies/{SEED}")
    makers = {kind: Maker(kind, f"policies/{SEED}") for kind in KINDS}
    for number in range(count):
        kind = KINDS_TRIED[number % len(KINDS_TRIED)]
        made = makers[kind].whole()
        if number % 9:
            made = changed(kind, made, choice)
        else:
            made = makers[kind].broken().object
        yield kind, labelled(made)


def left_to_controller(made: dict[str, Any]) -> bool:
    """A template with a # : CEL cannot tell a comment from a text."""
    return "#" in json.dumps(made["spec"])


# -- one opinion -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def verdicts(door: Door, policies: bool) -> Verdicts:
    found = Verdicts()
    tried = list(manifests(MANIFESTS))
    answers = side_by_side(lambda each: door.try_create(each[0], each[1]), tried)
    for (_kind, made), answer in zip(tried, answers, strict=True):
        problems = problems_of(made)
        crd = [each for each in problems if each.rule not in COVERED and not _of_controller(each.rule)]
        covered = {each.rule for each in problems if each.rule in COVERED} if policies else set()
        by_policy = "ValidatingAdmissionPolicy" in answer.message
        said = (
            f"{answer.status} {answer.message[:300]} | {[str(each) for each in problems]} | {json.dumps(made['spec'])}"
        )
        if answer.status not in (200, 201, 400, 422):
            found.disagreements.append(f"unexpected: {said}")
        elif by_policy and not covered:
            found.disagreements.append(f"only the policy refuses: {said}")
        elif covered and answer.accepted and not left_to_controller(made):
            found.disagreements.append(f"the policy accepts: {said}")
        elif crd and answer.accepted:
            found.disagreements.append(f"the CRD accepts: {said}")
        elif not answer.accepted and not crd and not covered:
            found.disagreements.append(f"only the server refuses: {said}")
        found.refused.update(covered)
        found.accepted += answer.accepted
        found.by_crd += bool(crd)
        found.by_controller += answer.accepted and bool(problems)
    return found


def _of_controller(rule: str) -> bool:
    """A rule of RULES that no policy has."""
    return rule in {"schedule", "network"}


def test_policies_controllers_and_the_command_agree(verdicts: Verdicts, capsys: pytest.CaptureFixture[str]):
    with capsys.disabled():
        print(
            f"\n{MANIFESTS} manifests: {verdicts.accepted} accepted, {verdicts.by_crd} refused by the CRD, by policies "
            f"{dict(sorted(verdicts.refused.items()))}, by controllers alone {verdicts.by_controller}; "
            f"{len(verdicts.disagreements)} disagreements"
        )
    assert verdicts.disagreements[:3] == []
    assert verdicts.accepted >= MANIFESTS / 5


def test_every_rule_of_a_policy_refused_something(verdicts: Verdicts, policies: bool):
    wanted = {each.rule for each in (*OF_CLASSES, *OF_POOLS, *OF_REQUESTS)}

    assert set(verdicts.refused) == (wanted if policies else set())


def test_every_gpu_of_the_table_is_known_to_the_policy(door: Door, policies: bool):
    """In one request for all: a class may name 64."""
    if not policies:
        pytest.skip("this Kubernetes knows no policies")
    names = sorted(gpus.catalogue().gpus)
    for start in range(0, len(names), 64):
        spec = {"providers": [{"name": "vast"}], "instanceRequirements": {"gpuTypes": names[start : start + 64]}}
        answer = door.try_create(CLASS, _object(CLASS, "all-gpus", spec))
        assert answer.accepted, answer.message


def test_a_template_as_long_as_the_crd_allows_is_judged(door: Door, policies: bool):
    """A policy that costs too much is an error, and an error refuses."""
    if not policies:
        pytest.skip("this Kubernetes knows no policies")
    line, longest = "  - name: '{{.NodeName}}-{{.NodePool}}'\n", _longest_template()
    for template in ("a:\n" + line * ((longest - 10) // len(line)), "a: '" + "{" * (longest - 5) + "'"):
        made = _object(
            CLASS, "long", {"providers": [{"name": "vast"}], "talosConfig": {"machineConfigTemplate": template}}
        )
        answer = door.try_create(CLASS, made)
        assert answer.accepted is not bool(problems_of(made)), answer.message[:500]
        assert "cost" not in answer.message


def _longest_template() -> int:
    spec = Maker(CLASS, "longest").schema["properties"]["spec"]["properties"]
    found: int = spec["talosConfig"]["properties"]["machineConfigTemplate"]["maxLength"]
    return found


# -- against the class -------------------------------------------------------------------------------------------------


def _object(kind: Kind, name: str, spec: dict[str, Any], namespace: str = "") -> dict[str, Any]:
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    made = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, "metadata": meta, "spec": spec}
    return labelled(made)


def _tailscale(choice: random.Random) -> dict[str, Any]:
    """Some of what a class and a request say about the tailnet."""
    said: dict[str, Any] = {}
    if choice.random() < 0.6:
        said["tags"] = choice.sample(["tag:a", "tag:b", "tag:c"], choice.randrange(1, 3))
    if choice.random() < 0.4:
        said["advertiseRoutes"] = choice.sample(["10.1.0.0/16", "10.2.0.0/16"], 1)
    if choice.random() < 0.4:
        said["ephemeral"] = choice.random() < 0.5
    if choice.random() < 0.4:
        said["acceptRoutes"] = choice.random() < 0.5
    return said


def _selector(choice: random.Random) -> dict[str, Any]:
    if choice.random() < 0.4:
        return {"matchLabels": {"team": choice.choice("ab")}}
    operator = choice.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    values = {"values": choice.sample(["a", "b"], 1)} if operator in {"In", "NotIn"} else {}
    return {"matchExpressions": [{"key": choice.choice(("team", "stage")), "operator": operator, **values}]}


def classes(choice: random.Random) -> Iterator[dict[str, Any]]:
    for number in range(8):
        spec: dict[str, Any] = {"providers": [{"name": "vast"}, {"name": "runpod"}]}
        if choice.random() < 0.6:
            spec["providers"][0]["talosConfig"] = {"tailscaleConfig": _tailscale(choice)}
        if choice.random() < 0.6:
            spec["talosConfig"] = {"tailscaleConfig": _tailscale(choice)}
        elif choice.random() < 0.6:
            spec["tailscaleConfig"] = _tailscale(choice)
        if number % 2:
            spec["allowedNamespaces"] = _selector(choice)
        made = _object(CLASS, f"policy-class-{number}", spec)
        if not problems_of(made):
            yield made


def test_requests_and_pools_are_held_to_their_class(door: Door, policies: bool):
    if not policies:
        pytest.skip("this Kubernetes knows no policies")
    choice = random.Random(f"pairs/{SEED}")
    namespaces = {"policy-a": {"team": "a"}, "policy-b": {"team": "b", "stage": "a"}, "policy-none": {}}
    for name, labels in namespaces.items():
        door.call("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    stored = [door.create(CLASS, each) for each in classes(choice)]
    assert len(stored) >= 4
    tried = []
    for number in range(PAIRS):
        class_name, namespace = choice.choice(stored)["metadata"]["name"], choice.choice(list(namespaces))
        ref = {"nodeClassRef": {"name": class_name if number % 10 else "policy-missing"}}
        if number % 4 == 0:
            tried.append((POOL, _object(POOL, f"p-{number}", ref, namespace)))
        else:
            spec = {"gpuType": "A100", **ref, "talosConfig": {"tailscaleConfig": _tailscale(choice)}}
            tried.append((REQUEST, _object(REQUEST, f"r-{number}", spec, namespace)))
    tried = [each for each in tried if not problems_of(each[1])]
    time.sleep(1)  # parameters reach the policies by a watch
    answers = side_by_side(lambda each: door.try_create(each[0], each[1]), tried)
    wrong, counted = [], Counter[str]()
    by_name = {each["metadata"]["name"]: decode(GPUNodeClass, copy.deepcopy(each)) for each in stored}
    for (kind, made), answer in zip(tried, answers, strict=True):
        node_class = by_name.get(made["spec"]["nodeClassRef"]["name"])
        allowed = node_class is None or namespace_allowed(
            node_class, namespaces[made["metadata"]["namespace"]], required=False
        )
        problems = []
        if node_class is not None and kind is REQUEST:
            request = decode(GPURequest, made)
            assert isinstance(request, GPURequest)
            problems = request_against_class(request, node_class)
        fine = allowed and not problems
        counted["accepted" if fine else "refused"] += 1
        if answer.accepted is not fine:
            wrong.append(f"{answer.message} | allowed={allowed} {[str(each) for each in problems]} {made['spec']}")
    for each in stored:
        door.delete(CLASS, each)
    for name in namespaces:
        door.call("DELETE", f"/api/v1/namespaces/{name}")
    assert wrong[:3] == []
    assert min(counted["accepted"], counted["refused"]) >= PAIRS / 10, counted


# -- what must stay possible -------------------------------------------------------------------------------------------


def test_an_object_that_was_stored_before_keeps_its_way_out(door: Door, policies: bool):
    """Labels, finalizers and deletion are no change of the spec."""
    if not policies:
        pytest.skip("this Kubernetes knows no policies")
    spec = {"gpuType": "Nonsense9"}
    made = _object(REQUEST, "stored-before", spec, "default")
    del made["metadata"]["labels"]
    made["metadata"]["finalizers"] = ["tgp.io/machine"]
    stored = door.create(REQUEST, made)
    labelled(stored)
    answer = door.call("PUT", REQUEST.resource.path("default", "stored-before"), stored)
    assert answer.accepted, answer.message
    answer.body["metadata"]["finalizers"] = []
    freed = door.call("PUT", REQUEST.resource.path("default", "stored-before"), answer.body)
    assert freed.accepted, freed.message
    door.delete(REQUEST, made)


def test_who_takes_our_finalizer_off_a_live_machine_is_told_what_it_costs(door: Door, policies: bool):
    if not policies:
        pytest.skip("this Kubernetes knows no policies")
    made = _object(REQUEST, "with-machine", {"gpuType": "A100"}, "default")
    made["metadata"]["finalizers"] = ["tgp.io/machine"]
    stored = door.create(REQUEST, made)
    attempt = {
        "number": 1,
        "token": "t",
        "launchedAt": "2026-11-01T00:00:00Z",
        "outcome": "Launched",
        "hourlyPrice": "1.67",
    }
    path = REQUEST.resource.path("default", "with-machine")
    stored["status"] = {"phase": "Ready", "attempts": [attempt]}
    written = door.call("PUT", f"{path}/status", stored)
    assert written.accepted, written.message
    written.body["metadata"]["finalizers"] = []
    freed = door.call("PUT", path, written.body)
    assert freed.accepted, freed.message
    (warning,) = freed.warnings
    assert "a machine of this request runs and costs $1.67 an hour" in warning
    assert "tgp doctor --fix" in warning
    door.delete(REQUEST, made)
