"""`tgp operator` before it starts: no cluster, rights to pods only, missing kinds."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest

from tests.cli.program import answer
from tests.contracts.kube_client.scripted import in_virtual_time, json_reply
from tgp.adapters.entropy import SystemEntropy
from tgp.adapters.kube.client import KubeCluster
from tgp.api.crds import crds
from tgp.core.classes.rights import KubeRight, missing_rights, single_rights
from tgp.ports.cluster import ClusterError
from tgp.ports.http import Call, NoAnswer, Reply
from tgp.services.shipped import operator_rights
from tgp.services.startup import MissingRight, StartupReport, grant_commands, prepare

PODS_ONLY = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
DEFINITIONS = {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["*"]}
KINDS = [definition["spec"]["names"]["kind"] for definition in crds()]
SELF = "system:serviceaccount:default:default"
ADMIN = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]


def shipped() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for role in operator_rights():
        if role["kind"] in ("ClusterRole", "Role") and role["metadata"]["name"] == "tgp-operator":
            yield role["metadata"].get("namespace", ""), role["rules"]


class AServer:
    """An API server that knows one user and one list of rules for each namespace."""

    def __init__(
        self, rules: Mapping[str, list[dict[str, Any]]], kinds: list[str] | None = None, *, told: bool = True
    ) -> None:
        self.rules = rules
        self.kinds = KINDS if kinds is None else kinds
        self.told = told  # whether a review of rules lists them: some authorizers do not
        self.applied: list[str] = []

    def _held(self, namespace: str) -> list[dict[str, Any]]:
        return [*self.rules.get("", ()), *self.rules.get(namespace, ())]

    async def send(self, call: Call) -> Reply:
        await asyncio.sleep(0)
        body = msgspec.json.decode(call.body) if call.body else {}
        if call.path == "/apis/tgp.io/v1":
            if not self.kinds:
                return json_reply(404, {"kind": "Status", "code": 404})
            return json_reply(200, {"resources": [{"kind": kind} for kind in self.kinds]})
        if call.path.endswith("/selfsubjectrulesreviews"):
            held = self._held(body["spec"]["namespace"]) if self.told else []
            return json_reply(201, {"status": {"resourceRules": held, "incomplete": not self.told}})
        if call.path.endswith("/selfsubjectaccessreviews"):
            return json_reply(201, {"status": {"allowed": self._allows(body["spec"]["resourceAttributes"])}})
        if call.path.endswith("/selfsubjectreviews"):
            return json_reply(201, {"status": {"userInfo": {"username": SELF}}})
        if call.path.endswith("/customresourcedefinitions"):
            assert call.method == "POST", "one that is there is never changed"
            self.applied.append(body["metadata"]["name"])
            self.kinds = [*self.kinds, body["spec"]["names"]["kind"]]
            return json_reply(201, {**body, "metadata": {**body["metadata"], "uid": "u", "resourceVersion": "1"}})
        assert "/api/v1/namespaces/" in call.path, call.path
        return json_reply(200, {"metadata": {"name": "tgp-system"}})

    def _allows(self, asked: Mapping[str, str]) -> bool:
        resource = "/".join(filter(None, (asked["resource"], asked.get("subresource", ""))))
        wanted = {"apiGroups": [asked.get("group", "")], "resources": [resource], "verbs": [asked["verb"]]}
        if asked.get("name"):
            wanted["resourceNames"] = [asked["name"]]
        return not missing_rights(self._held(asked.get("namespace", "")), [wanted])


def report(server: AServer, *, observe: bool = False) -> StartupReport:
    cluster = KubeCluster(server, SystemEntropy())
    return in_virtual_time(prepare(server, cluster, "tgp-system", "tgp-operator", observe=observe))


def test_without_a_cluster_it_ends_with_the_ways_to_give_it_one(tmp_path):
    ended = answer("operator", KUBERNETES_SERVICE_HOST="", HOME=str(tmp_path))

    assert ended.returncode == 2
    assert "No cluster is configured" in ended.stderr
    assert "docker run" in ended.stderr
    assert "helm install" in ended.stderr


def test_rights_to_pods_only_are_answered_with_all_that_is_missing_and_the_commands_that_grant_it():
    found = report(AServer({"": PODS_ONLY}, kinds=[]))
    text = "\n".join(found.lines())

    assert found.stops
    assert "tgp crds apply" in text
    assert "list gpurequests.tgp.io in every namespace" in text
    assert "get leases.coordination.k8s.io tgp-operator in namespace tgp-system" in text
    assert "list pods in every namespace" not in text
    assert "kubectl apply -f deploy/rights.yaml" in text
    assert "clusterrolebinding tgp-operator-2 --clusterrole=tgp-operator --serviceaccount=default:default" in text
    assert "rolebinding tgp-operator-2 -n kube-system --role=tgp-operator --serviceaccount=default:default" in text


def test_the_shipped_roles_are_enough():
    found = report(AServer(dict(shipped())))

    assert not found.stops
    assert (found.rights, found.installed) == ((), ())


@pytest.mark.parametrize("told", [True, False])
def test_every_right_of_the_shipped_roles_is_missed_when_it_is_gone_and_only_it(told):
    """Also where a review of rules lists none: then each right is asked for."""
    for where, rules in shipped():
        for right in single_rights(rules):
            kept = {place: list(of_place) for place, of_place in shipped()}
            kept[where] = [_one(each) for each in single_rights(rules) if each != right]
            found = report(AServer(kept, told=told))
            assert [each.right for each in found.rights] == [right], right


def _one(right: KubeRight) -> dict[str, Any]:
    rule = {"apiGroups": [right.group], "resources": [right.resource], "verbs": [right.verb]}
    return {**rule, "resourceNames": [right.name]} if right.name else rule


def test_what_is_not_needed_at_once_is_told_and_does_not_stop_it():
    kept = {place: [rule for rule in rules if "secrets" not in rule["resources"]] for place, rules in shipped()}
    found = report(AServer(kept))

    assert found.rights
    assert not found.stops


def test_missing_kinds_are_installed_where_that_is_allowed():
    server = AServer({"": [*ADMIN]}, kinds=["GPURequest"])
    found = report(server)

    assert sorted(found.installed) == sorted(server.applied)
    assert len(found.installed) == 3
    assert not found.stops


def test_missing_kinds_are_named_where_they_may_not_be_installed():
    server = AServer(dict(shipped()), kinds=["GPURequest"])
    found = report(server)

    assert (found.kinds, server.applied) == (("GPUNodeClass", "GPUNodePool", "GPUWorkloadBudget"), [])
    assert found.stops


def test_an_observer_installs_nothing_and_needs_to_read_only():
    reads = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["list", "watch"]}]
    server = AServer({"": [*reads, DEFINITIONS]}, kinds=["GPURequest"])
    found = report(server, observe=True)

    assert server.applied == []
    assert found.rights == ()


def test_a_silent_server_is_no_answer():
    class Silent(AServer):
        async def send(self, call: Call) -> Reply:
            raise NoAnswer(f"{call.path}: reset")

    with pytest.raises(ClusterError):
        report(Silent({}))


def test_the_shipped_account_needs_no_other_binding():
    right = MissingRight(KubeRight("list", "", "pods", ""), "", True)

    assert grant_commands("system:serviceaccount:tgp-system:tgp-operator", [right]) == [
        "kubectl apply -f deploy/rights.yaml"
    ]
    assert grant_commands("alice", [right])[1].endswith("--user=alice")
