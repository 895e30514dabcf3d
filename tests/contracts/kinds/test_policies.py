"""The admission policies of our kinds, the controllers and `tgp check -f` have one opinion of every manifest."""

import copy
import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from zoneinfo import available_timezones

import msgspec
import pytest

from tests.amounts import amount
from tests.contracts.kinds.manifests import Maker
from tests.contracts.kinds.real_api_server import Answer, RealApiServer, side_by_side
from tgp.api.decoding import decode
from tgp.api.field_error import FieldError
from tgp.api.kinds import BUDGET, CLASS, KINDS, POOL, REQUEST, Kind
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.resource import VALIDATING_ADMISSION_POLICY, VALIDATING_ADMISSION_POLICY_BINDING
from tgp.core.classes.semantic_validation import (
    BUDGET_RULE,
    CLASS_HAS_ONLY,
    CLASS_SPOT_RULE,
    FREE_MACHINES,
    FREE_RULE,
    GPU_RULE,
    HOST_RULE,
    LIMIT_RULE,
    NAMESPACE_REFUSED,
    NAMESPACE_RULE,
    NARROW_RULE,
    NETWORK_RULE,
    NO_SPOT,
    NOT_COUNTED,
    REGION_RULE,
    REQUIREMENTS_RULE,
    RULES,
    SCHEDULE_RULE,
    TIME_ZONE_RULE,
    UNKNOWN_GPU,
    UNSUPPORTED_TALOS,
    VERSION_RULE,
)
from tgp.core.inventory.limits import COUNTED
from tgp.core.joining.talos.variables import VARIABLES
from tgp.core.model import gpus
from tgp.core.reports.manifest_verdict import Surroundings, verdict
from tools.kind_policies import ALWAYS, BEYOND_CLASS, BY_VALUE, MESH, NAMESPACES, NARROW, plain
from tools.kind_policies import CLASS as OF_CLASSES
from tools.kind_policies import POOL as OF_POOLS
from tools.kind_policies import REQUEST as OF_REQUESTS

MANIFESTS = amount(2000, 20_000, "TGP_POLICY_MANIFESTS")
PAIRS = amount(400, 2000)  # of a request or pool and a class
SEED = os.environ.get("TGP_SEED", "1")
COVERED = frozenset(rule.policy for rule in RULES if rule.policy)
ASKED = {"use": "asked"}  # what `policies.requireUse` looks at here
LABEL = {"policies": "looked-at"}  # other tests of this folder ask the same API server, without policies
EFFECT_BOUND = 300  # looks, a tenth of a second apart
KINDS_TRIED = (CLASS, CLASS, POOL, REQUEST, BUDGET)
ALONE = Surroundings(time_zones=frozenset(available_timezones()))


@dataclass
class Verdicts:
    disagreements: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)  # by rule
    accepted: int = 0
    by_crd: int = 0
    by_controller: int = 0  # what only a controller and `tgp check -f` refuse


def bound(objects: list[dict[str, Any]], labels: dict[str, str]) -> Iterator[dict[str, Any]]:
    for each in objects:
        if each["kind"].endswith("Binding"):
            each["spec"]["matchResources"] = {"objectSelector": {"matchLabels": labels}}
        yield each


@pytest.fixture(scope="module")
def policies(real_server: RealApiServer) -> Iterator[bool]:
    """Whether there are any: an older Kubernetes knows no such kind."""
    if not real_server.newest:
        yield False
        return
    objects = list(bound(plain(ALWAYS, "tgp-system"), LABEL))
    for each in objects:
        answer = real_server.call("POST", _path(each), each)
        assert answer.accepted, answer.message
    probe = labelled(Maker(REQUEST, "probe").whole(density=0.05))
    probe["spec"]["gpuType"] = "Nonsense9"
    probe["spec"].pop("offer", None)
    for _ in range(EFFECT_BOUND):
        if not real_server.try_create(REQUEST, probe).accepted:
            break
        time.sleep(0.1)
    else:
        raise AssertionError("the policies have no effect")
    yield True
    for each in objects:
        real_server.call("DELETE", f"{_path(each)}/{each['metadata']['name']}")


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
UNCOUNTED = ("usd", "gpu", "nvidia.com/gpus", "ephemeral-storage")
IMAGES = ("v1.10.5", "ghcr.io/siderolabs/talos:v1.14.0-alpha.1", "v1.9.9", "v1.15.0", "v2.10.0", "v1.12.0")


def changed(kind: Kind, made: dict[str, Any], choice: random.Random) -> dict[str, Any]:
    """Of a manifest that the CRD accepts: values that only policies and controllers judge."""
    spec = made["spec"]
    gpu = choice.choice(GOOD_GPUS if choice.random() < 0.7 else BAD_GPUS)
    if choice.random() < 0.4 or (spec.get("limits") or {}).get("resources"):
        name = choice.choice(COUNTED if choice.random() < 0.7 else UNCOUNTED)
        spec.setdefault("limits", {})["resources"] = {name: 3}
    if kind is BUDGET:
        spec.pop("limits", None)
        if "quota" in spec and choice.random() < 0.5:
            spec["quota"] |= {"calendar": "Month", "timeZone": choice.choice(("UTC", "Europe/Berlin", "Mars/Olympus"))}
            spec["quota"].pop("windowHours", None)
        return made
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
def verdicts(real_server: RealApiServer, policies: bool) -> Verdicts:
    found = Verdicts()
    tried = list(manifests(MANIFESTS))
    answers = side_by_side(lambda each: real_server.try_create(each[0], each[1]), tried)
    for (_kind, made), answer in zip(tried, answers, strict=True):
        problems = verdict(made, ALONE)
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
        elif by_policy and in_other_words(answer, problems):
            found.disagreements.append(f"in other words: {said}")
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
    return rule in {SCHEDULE_RULE, NETWORK_RULE, TIME_ZONE_RULE, BUDGET_RULE, REQUIREMENTS_RULE, HOST_RULE, REGION_RULE}


WORDS = {  # that a policy and the command share
    GPU_RULE: UNKNOWN_GPU,
    VERSION_RULE: UNSUPPORTED_TALOS,
    LIMIT_RULE: NOT_COUNTED,
    NAMESPACE_RULE: NAMESPACE_REFUSED,
    NARROW_RULE: CLASS_HAS_ONLY,
    FREE_RULE: FREE_MACHINES,
    CLASS_SPOT_RULE: NO_SPOT,
}


def in_other_words(answer: Answer, problems: Sequence[FieldError]) -> bool:
    """Whether the policy refuses by words that the command does not have. It says only the first."""
    told = [WORDS.get(each.rule, "") for each in problems if each.rule in COVERED]
    return not any(words in answer.message for words in told) or not all(
        WORDS.get(each.rule, "") in each.detail for each in problems
    )


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


def test_every_gpu_of_the_table_is_known_to_the_policy(real_server: RealApiServer, policies: bool):
    """In one request for all: a class may name 64."""
    if not policies:
        pytest.skip("this Kubernetes knows no policies")
    names = sorted(gpus.catalogue().gpus)
    for start in range(0, len(names), 64):
        spec = {"providers": [{"name": "vast"}], "instanceRequirements": {"gpuTypes": names[start : start + 64]}}
        answer = real_server.try_create(CLASS, _object(CLASS, "all-gpus", spec))
        assert answer.accepted, answer.message


def test_a_template_as_long_as_the_crd_allows_is_judged(real_server: RealApiServer, policies: bool):
    """A policy that costs too much is an error, and an error refuses."""
    if not policies:
        pytest.skip("this Kubernetes knows no policies")
    line, longest = "  - name: '{{.NodeName}}-{{.NodePool}}'\n", _longest_template()
    for template in ("a:\n" + line * ((longest - 10) // len(line)), "a: '" + "{" * (longest - 5) + "'"):
        made = _object(
            CLASS, "long", {"providers": [{"name": "vast"}], "talosConfig": {"machineConfigTemplate": template}}
        )
        answer = real_server.try_create(CLASS, made)
        assert answer.accepted is not bool(verdict(made, ALONE)), answer.message[:500]
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


def _wishes(choice: random.Random) -> dict[str, Any]:
    """What a class says about machines."""
    said: dict[str, Any] = {"spotAllowed": True} if choice.random() < 0.5 else {}
    if choice.random() < 0.6:
        said["gpuTypes"] = choice.sample(["A100", "a100-80gb-sxm", "NVIDIA H100", "RTX 4090"], choice.randrange(1, 3))
    if choice.random() < 0.5:
        said["regions"] = choice.sample(["eu-west", "us-east", "asia-east"], choice.randrange(1, 3))
    return said


def _rows(choice: random.Random) -> list[dict[str, Any]]:
    """Requirements of a pool."""
    found = []
    for key, values in (
        ("tgp.io/gpu-type", ["A100", "A100-80GB-SXM", "H100", "geforce rtx 4090"]),
        ("tgp.io/region", ["eu-west", "us-east"]),
        ("topology.kubernetes.io/region", ["eu-west", "asia-east"]),
        ("tgp.io/capacity-type", ["spot", "on-demand"]),
        ("tgp.io/spot", ["true", "false"]),
        ("tgp.io/provider", ["vast", "runpod", "gcp"]),
    ):
        for _ in range(choice.choice((0, 0, 1, 1, 2))):
            operator = choice.choice(("In", "In", "NotIn", "Exists"))
            row = {"key": key, "operator": operator}
            if operator != "Exists":
                row["values"] = choice.sample(values, choice.randrange(1, len(values)))
            found.append(row)
    return found


def classes(choice: random.Random) -> Iterator[dict[str, Any]]:
    for number in range(12):
        spec: dict[str, Any] = {"providers": [{"name": "vast.ai"}, {"name": "runpod"}]}
        if choice.random() < 0.3:
            spec["providers"][0]["enabled"] = False
        if choice.random() < 0.6:
            spec["providers"][0]["talosConfig"] = {"tailscaleConfig": _tailscale(choice)}
        if choice.random() < 0.6:
            spec["talosConfig"] = {"tailscaleConfig": _tailscale(choice)}
        elif choice.random() < 0.6:
            spec["tailscaleConfig"] = _tailscale(choice)
        if number % 2:
            spec["allowedNamespaces"] = _selector(choice)
        if number % 3:
            spec["instanceRequirements"] = _wishes(choice)
        made = _object(CLASS, f"policy-class-{number}", spec)
        if not verdict(made, ALONE):
            yield made


def of_classes(number: int, choice: random.Random, names: Sequence[str], namespace: str) -> tuple[Kind, dict[str, Any]]:
    """A pool or a request of one of these classes, now and then of one that does not exist."""
    ref = {"nodeClassRef": {"name": choice.choice(names) if number % 10 else "policy-missing"}}
    if number % 3 == 0:
        spec = {**ref, "template": {"spec": {"requirements": _rows(choice)}}}
        if choice.random() < 0.15:
            spec["maxHourlyPrice"] = choice.choice(("0", "0.00", "1.5"))
        return POOL, _object(POOL, f"p-{number}", spec, namespace)
    spec = {"gpuType": choice.choice(("A100", "A100-80GB-SXM", "h100", "RTX4090")), **ref}
    if choice.random() < 0.3:
        spec["talosConfig"] = {"tailscaleConfig": _tailscale(choice)}
    if choice.random() < 0.3:
        spec["spot"] = True
    return REQUEST, _object(REQUEST, f"r-{number}", spec, namespace)


OF_CLASS = {each.rule for each in (NAMESPACES, *NARROW, *MESH, *BEYOND_CLASS)}


def test_requests_and_pools_are_held_to_their_class(
    real_server: RealApiServer, policies: bool, capsys: pytest.CaptureFixture[str]
):
    """By each rule, in the command's words; and what the command accepts, the policies accept."""
    if not policies:
        pytest.skip("this Kubernetes knows no policies")
    choice = random.Random(f"pairs/{SEED}")
    namespaces = {"policy-a": {"team": "a"}, "policy-b": {"team": "b", "stage": "a"}, "policy-none": {}}
    for name, labels in namespaces.items():
        real_server.call("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    stored = [real_server.create(CLASS, each) for each in classes(choice)]
    assert len(stored) >= 4
    by_name = {each["metadata"]["name"]: decode(GPUNodeClass, copy.deepcopy(each)) for each in stored}
    tried = [of_classes(number, choice, [*by_name], choice.choice([*namespaces])) for number in range(PAIRS)]
    tried = [each for each in tried if not verdict(each[1], ALONE)]
    known = msgspec.structs.replace(ALONE, classes=by_name, namespaces=namespaces)
    time.sleep(1)  # parameters reach the policies by a watch
    answers = side_by_side(lambda each: real_server.try_create(each[0], each[1]), tried)
    wrong, counted, accepted = [], Counter[str](), 0
    for (_kind, made), answer in zip(tried, answers, strict=True):
        problems = verdict(made, known)
        counted.update({each.rule for each in problems})
        accepted += not problems
        said = f"{answer.message} | {[str(each) for each in problems]} {made['spec']}"
        if answer.accepted is bool(problems):
            wrong.append(f"not the same: {said}")
        elif problems and in_other_words(answer, problems):
            wrong.append(f"in other words: {said}")
    for each in stored:
        real_server.delete(CLASS, each)
    for name in namespaces:
        real_server.call("DELETE", f"/api/v1/namespaces/{name}")
    with capsys.disabled():
        print(f"\n{len(tried)} with a class: {accepted} accepted, refused {dict(sorted(counted.items()))}")
    assert wrong[:3] == []
    assert set(counted) == OF_CLASS
    assert accepted >= PAIRS / 10


def test_a_long_list_of_gpus_is_compared_with_another(real_server: RealApiServer, policies: bool):
    """A policy that costs too much is an error, and an error refuses."""
    if not policies:
        pytest.skip("this Kubernetes knows no policies")
    names = sorted(gpus.catalogue().gpus)
    wanted = {"instanceRequirements": {"gpuTypes": names[:64]}}
    stored = real_server.create(CLASS, _object(CLASS, "long-list", {"providers": [{"name": "vast"}], **wanted}))
    row = {"key": "tgp.io/gpu-type", "operator": "In", "values": names[-60:]}
    ref = {"nodeClassRef": {"name": "long-list"}}
    pool = _object(POOL, "long", {**ref, "template": {"spec": {"requirements": [row, row, row, row]}}}, "default")
    request = _object(REQUEST, "long", {"gpuType": names[-1], **ref}, "default")
    time.sleep(1)  # parameters reach the policies by a watch
    of_pool, of_request = real_server.try_create(POOL, pool), real_server.try_create(REQUEST, request)
    real_server.delete(CLASS, stored)

    known = msgspec.structs.replace(ALONE, classes={"long-list": decode(GPUNodeClass, copy.deepcopy(stored))})
    assert of_pool.accepted is not bool(verdict(pool, known)), of_pool.message
    assert "does not allow" in of_request.message


def test_a_class_serves_no_namespace_that_it_does_not_name_where_that_is_required(
    real_server: RealApiServer, policies: bool
):
    """As the controllers do with settings.requireAllowedNamespaces; the chart gives the policy the same value."""
    if not policies:
        pytest.skip("this Kubernetes knows no policies")
    label = {"namespaces": "required"}
    objects = list(bound(plain(ALWAYS, "tgp-system", namespaces_required=True), label))
    for each in objects:
        each["metadata"]["name"] += "-required"
        if each["kind"].endswith("Binding"):
            each["spec"]["policyName"] += "-required"
        answer = real_server.call("POST", _path(each), each)
        assert answer.accepted, answer.message
    named = {"allowedNamespaces": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}
    open_class, closed = (
        _object(CLASS, name, {"providers": [{"name": "vast"}], **spec})
        for name, spec in (("serves-default", named), ("serves-none", {}))
    )
    for each in (open_class, closed):
        real_server.create(CLASS, each)

    def asks(name: str) -> Answer:
        made = using(name)
        made["metadata"]["labels"] = dict(label)
        return real_server.try_create(REQUEST, made)

    for _ in range(EFFECT_BOUND):
        if not asks("serves-none").accepted:
            break
        time.sleep(0.1)
    refused, allowed = asks("serves-none"), asks("serves-default")
    for each in objects:
        real_server.call("DELETE", f"{_path(each)}/{each['metadata']['name']}")
    for each in (open_class, closed):
        real_server.delete(CLASS, each)

    assert f"GPUNodeClass serves-none {NAMESPACE_REFUSED}" in refused.message
    assert allowed.accepted, allowed.message


# -- who may use a class -----------------------------------------------------------------------------------------------

MEMBER, GUEST = "member", "guest"  # who may write pools and requests; only the first may use class-of-members
RIGHTS = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture(scope="module")
def use_required(real_server: RealApiServer, policies: bool) -> Iterator[None]:
    """The policy of `policies.requireUse`, and two users."""
    if not policies:
        pytest.skip("this Kubernetes knows no policies")
    writes = {"apiGroups": ["tgp.io"], "resources": ["gpunodepools", "gpurequests"], "verbs": ["create", "update"]}
    uses = {
        "apiGroups": ["tgp.io"],
        "resources": ["gpunodeclasses"],
        "resourceNames": ["class-of-members"],
        "verbs": ["use"],
    }
    made: list[tuple[str, dict[str, Any]]] = []
    for name, rule, users in (("writes", writes, (MEMBER, GUEST)), ("uses", uses, (MEMBER,))):
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"class-use-{name}"}
        subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user} for user in users]
        meta = {"metadata": {"name": ref["name"]}}
        made += [
            (f"{RIGHTS}/clusterroles", {**meta, "rules": [rule]}),
            (f"{RIGHTS}/clusterrolebindings", {**meta, "roleRef": ref, "subjects": subjects}),
        ]
    made += [(_path(each), each) for each in bound(plain(BY_VALUE, "tgp-system"), ASKED)]
    for path, each in made:
        answer = real_server.call("POST", path, each)
        assert answer.accepted, answer.message
    for _ in range(EFFECT_BOUND):
        if "may not use" in real_server.try_create(REQUEST, using("class-of-members"), user=GUEST).message:
            break
        time.sleep(0.1)
    else:
        raise AssertionError("the policy has no effect")
    yield
    for path, each in made:
        real_server.call("DELETE", f"{path}/{each['metadata']['name']}")


def using(class_name: str, kind: Kind = REQUEST) -> dict[str, Any]:
    """A request or pool that names a class; empty: none."""
    ref = {"nodeClassRef": {"name": class_name}} if class_name else {}
    made = _object(kind, "by-a-user", {**({"gpuType": "A100"} if kind is REQUEST else {}), **ref}, "default")
    made["metadata"]["labels"] = dict(ASKED)
    return made


@pytest.mark.parametrize("kind", [REQUEST, POOL], ids=lambda kind: kind.resource.kind)
def test_a_user_with_the_verb_use_on_a_class_may_name_it(real_server: RealApiServer, use_required: None, kind: Kind):
    answer = real_server.try_create(kind, using("class-of-members", kind), user=MEMBER)

    assert answer.accepted, answer.message


@pytest.mark.parametrize("kind", [REQUEST, POOL], ids=lambda kind: kind.resource.kind)
@pytest.mark.parametrize(("user", "class_name"), [(GUEST, "class-of-members"), (MEMBER, "another-class")])
def test_without_that_verb_it_is_refused(
    real_server: RealApiServer, use_required: None, kind: Kind, user: str, class_name: str
):
    answer = real_server.try_create(kind, using(class_name, kind), user=user)

    assert answer.status == 422
    assert f"{user} may not use GPUNodeClass {class_name}" in answer.message


@pytest.mark.parametrize("user", [GUEST, MEMBER])
def test_a_request_that_omits_its_class_is_refused_where_the_verb_is_required(
    real_server: RealApiServer, use_required: None, user: str
):
    """The operator would choose the default class, or the only one: a class that this user may not use."""
    answer = real_server.try_create(REQUEST, using(""), user=user)

    assert answer.status == 422
    assert f"spec.nodeClassRef: Required value: name a GPUNodeClass that {user} may use" in answer.message


# -- what must stay possible -------------------------------------------------------------------------------------------


def test_an_object_that_was_stored_before_keeps_its_way_out(real_server: RealApiServer, policies: bool):
    """Labels, finalizers and deletion are no change of the spec."""
    if not policies:
        pytest.skip("this Kubernetes knows no policies")
    spec = {"gpuType": "Nonsense9"}
    made = _object(REQUEST, "stored-before", spec, "default")
    del made["metadata"]["labels"]
    made["metadata"]["finalizers"] = ["tgp.io/machine"]
    stored = real_server.create(REQUEST, made)
    labelled(stored)
    answer = real_server.call("PUT", REQUEST.resource.path("default", "stored-before"), stored)
    assert answer.accepted, answer.message
    answer.body["metadata"]["finalizers"] = []
    freed = real_server.call("PUT", REQUEST.resource.path("default", "stored-before"), answer.body)
    assert freed.accepted, freed.message
    real_server.delete(REQUEST, made)


@pytest.mark.parametrize(
    ("attempt", "warned"),
    [
        (
            {"launchedAt": "2026-11-01T00:00:00Z", "outcome": "Launched", "hourlyPrice": "1.67"},
            "a machine of this request runs and costs $1.67 an hour",
        ),
        (
            {"launchedAt": "2026-11-01T00:00:00Z", "outcome": "Launched"},
            "a machine of this request runs. Without",
        ),
        (
            {"offer": {"provider": "vast", "instanceType": "x", "hourlyPrice": "2.10"}},
            "the outcome of an order of this request is not known yet: a machine may run and cost $2.10 an hour",
        ),
        ({"endedAt": "2026-11-01T00:00:00Z", "outcome": "NotCreated", "hourlyPrice": "1.67"}, ""),
    ],
    ids=["runs", "price unknown", "outcome unknown", "ended"],
)
def test_who_takes_our_finalizer_off_a_live_machine_is_told_what_it_costs(
    real_server: RealApiServer, policies: bool, attempt: dict[str, Any], warned: str
):
    if not policies:
        pytest.skip("this Kubernetes knows no policies")
    made = _object(REQUEST, "with-machine", {"gpuType": "A100"}, "default")
    made["metadata"]["finalizers"] = ["tgp.io/machine"]
    stored = real_server.create(REQUEST, made)
    path = REQUEST.resource.path("default", "with-machine")
    stored["status"] = {"phase": "Ready", "attempts": [{"number": 1, "token": "t", **attempt}]}
    written = real_server.call("PUT", f"{path}/status", stored)
    assert written.accepted, written.message
    written.body["metadata"]["finalizers"] = []
    freed = real_server.call("PUT", path, written.body)
    real_server.delete(REQUEST, made)
    assert freed.accepted, freed.message
    if not warned:
        assert freed.warnings == ()
        return
    (warning,) = freed.warnings
    assert warned in warning
    assert "tgp doctor --fix" in warning
