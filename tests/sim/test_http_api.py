"""The pages of the HTTP API: the documents of the commands, for those who may, of the namespaces they may."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.documents import compare
from tests.sim.an_operator import a_class, a_pool, create, furnish, open_market, settle
from tests.sim.cluster.manifests import a_pod
from tests.sim.test_access import HTTPS, ROLE_BINDING, a_token, allow, ask, reviews_of
from tests.sim.test_budgets import a_budget
from tests.sim.test_leadership_status import Replica
from tgp.api.resource import CLUSTER_ROLE, GPU_REQUEST, NAMESPACE, POD
from tgp.app.settings import Settings
from tgp.core.access.token import TOKEN_HEADER
from tgp.interfaces.web.api_pages import ENTRIES, USUAL_ROWS
from tgp.interfaces.web.gate import accepts
from tgp.ports.http import Call, Pairs, Reply
from tgp.services.documents.schemas import DOCUMENTS
from tgp.sim.world import World

PAGES = sorted({"offers", *(each.resource for each in ENTRIES)})
EVERYTHING = {"apiGroups": ["tgp.io"], "resources": PAGES, "verbs": ["list"]}
LISTS = {"requests": "requests", "pools": "items", "classes": "items", "budgets": "items", "nodes": "nodes"}


@dataclass
class Served:
    world: World
    replica: Replica
    token: str  # of one who may read everything
    narrow: str  # of one who may read everything in namespace ml

    def get(
        self, path: str, query: Pairs = (), token: str | None = None, *, method: str = "GET", accept: str = ""
    ) -> Reply:
        headers = ((TOKEN_HEADER, self.token if token is None else token), *((("Accept", accept),) if accept else ()))
        peer = f"10.0.0.{len(query)}"
        self.world.run(seconds=5)  # no address asks too often
        call = Call(method, path, query=query, headers=headers, peer=peer)
        return self.world.until(self.replica.operator.https.gate.handle(call))

    def document(self, path: str, query: Pairs = (), token: str | None = None) -> dict[str, Any]:
        reply = self.get(path, query, token)
        assert reply.status == 200, reply.content
        found = reply.json()
        assert found["kind"] in DOCUMENTS
        compare(found)
        return found


@contextmanager
def a_served_world() -> Iterator[Served]:
    """Two namespaces, each with a pool, a request with a machine, and a pod that waits."""
    with World("http api") as world:
        furnish(world)
        open_market(world, "simulated")
        a_class(world, "rented", providers=[{"name": "simulated"}], limits={"maxNodes": 2, "maxHourlyCost": "9"})
        for namespace in ("ml", "web"):
            create(world, NAMESPACE, namespace)
            a_pool(world, "pool", "rented", namespace)
            spec = {"gpuType": "L40S", "nodeClassRef": {"name": "rented"}}
            create(world, GPU_REQUEST, f"of-{namespace}", namespace, spec=spec)
            pod = a_pod("train", namespace)
            pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
            world.api.local_api.create(POD, pod)
        a_budget(world)
        replica = Replica(world, "one", Settings(https_listen=HTTPS.https_listen, require_device_plugin=False))
        settle(world)
        world.run(minutes=5)
        allow(world, "reads-everything", EVERYTHING)
        create(world, CLUSTER_ROLE, "reads-ml", rules=[EVERYTHING])
        narrow = a_token(world, name="narrow", minutes=600)
        subjects = [{"kind": "ServiceAccount", "name": "narrow", "namespace": "default"}]
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reads-ml"}
        create(world, ROLE_BINDING, "reads-ml", "ml", roleRef=role, subjects=subjects)
        yield Served(world, replica, a_token(world, minutes=600), narrow)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with a_served_world() as found:
        yield found


@pytest.mark.parametrize(("name", "rows"), LISTS.items())
def test_a_list_is_the_document_of_its_command_and_comes_in_parts(served, name, rows):
    whole = served.document(f"/api/v1/{name}")
    names = [(row.get("namespace", ""), row["name"]) for row in whole[rows]]
    assert whole["more"] is False
    assert names == sorted(names)
    assert names or name == "nodes", "the world has some"
    for namespace, each in names[:-1]:
        after = f"{namespace}/{each}" if namespace else each
        part = served.document(f"/api/v1/{name}", (("after", after), ("limit", "1")))
        assert [row["name"] for row in part[rows]] == [names[names.index((namespace, each)) + 1][1]]
        assert part["more"] is (names[-2] != (namespace, each))


def test_requests_have_their_machines_and_what_they_cost(served):
    whole = served.document("/api/v1/requests")
    by_name = {(row["namespace"], row["name"]): row for row in whole["requests"]}

    assert by_name["ml", "of-ml"]["usdPerHour"] > 0
    assert whole["usdPerHour"] == pytest.approx(sum(row["usdPerHour"] or 0 for row in whole["requests"]))
    cost = served.document("/api/v1/cost", (("by", "namespace"),))
    assert {item["group"] for item in cost["items"]} <= {"ml", "web"}
    assert cost["usdPerHourNow"] == pytest.approx(whole["usdPerHour"])


@pytest.mark.parametrize("name", ["requests", "pools", "budgets", "cost", "plan"])
def test_all_namespaces_is_one_right_and_who_has_it_in_one_sees_that_one_alone(served, name):
    heard = reviews_of(served.world)
    refused = served.get(f"/api/v1/{name}", (), served.narrow)
    assert refused.status == 403
    assert "in all namespaces; name a namespace of yours: ?namespace=NAME" in refused.text("message")
    assert heard.count("SubjectAccessReview") == 1
    assert served.get(f"/api/v1/{name}", (("namespace", "web"),), served.narrow).status == 403
    mine = served.get(f"/api/v1/{name}", (("namespace", "ml"),), served.narrow)
    assert mine.status == 200
    compare(mine.json())
    assert b'"web"' not in mine.content
    assert b"web/" not in mine.content


@pytest.mark.parametrize("name", ["classes", "nodes"])
def test_what_has_no_namespace_takes_the_right_to_all(served, name):
    assert served.get(f"/api/v1/{name}", (), served.narrow).status == 403
    assert served.get(f"/api/v1/{name}", (("namespace", "ml"),), served.narrow).status == 400


@pytest.mark.parametrize(
    ("subject", "kind"),
    [
        ("request/ml/of-ml", "RequestReason"),
        ("pod/ml/train", "PodReason"),
        ("pool/ml/pool", "PoolReason"),
        ("budget/default/team-a", "BudgetEnquiry"),
    ],
)
def test_why_explains_as_the_command_does(served, subject, kind):
    found = served.document(f"/api/v1/why/{subject}")

    assert found["kind"] == kind
    assert found["name"] == subject.rpartition("/")[2]


def test_why_is_for_the_namespace_in_the_path(served):
    mine = served.document("/api/v1/why/request/ml/of-ml", token=served.narrow)
    assert [each["namespace"] for each in mine["holders"]] == ["ml"]
    assert served.get("/api/v1/why/request/web/of-web", token=served.narrow).status == 403
    missing = served.get("/api/v1/why/request/ml/of-mll", token=served.narrow)
    assert (missing.status, missing.text("message")) == (
        404,
        "there is no GPURequest ml/of-mll; did you mean of-ml?",
    )
    assert served.get("/api/v1/why/node/nothing").status == 404


@pytest.mark.parametrize(
    ("path", "query", "status", "says"),
    [
        ("/api/v1/requests", (("limit", "0"),), 400, "limit"),
        ("/api/v1/requests", (("limit", "1001"),), 400, "limit"),
        ("/api/v1/requests", (("namespace", "Not A Name"),), 400, "namespace"),
        ("/api/v1/requests", (("namespace", "ml"), ("namespace", "web")), 400, "once"),
        ("/api/v1/requests", (("color", "red"),), 400, "known are namespace, limit, after"),
        ("/api/v1/cost", (("month", "november"),), 400, "month"),
        ("/api/v1/cost", (("month", "1990-01"),), 400, "tgp cost --month 1990-01"),
        ("/api/v1/cost", (("by", "colour"),), 400, "by"),
        ("/api/v1/why/horse/ml/x", (), 400, "kind"),
        ("/api/v1/why/request/ml/%2e%2e", (), 400, "name"),
        ("/api/v1/why/request/ml", (), 404, "paths are"),
        ("/api/v1/why/{kind}/{namespace}/{name}", (), 400, "kind"),
        ("/api/v1", (), 404, "paths are"),
    ],
)
def test_what_is_wrong_is_named(served, path, query, status, says):
    reply = served.get(path, query)

    assert reply.status == status
    assert reply.header("Content-Type") == "application/json"
    assert says in reply.text("message")


def test_pages_are_only_read(served):
    path = "/api/v1/requests"
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        reply = served.get(path, method=method)
        assert (reply.status, reply.header("Allow")) == (405, "GET, HEAD, OPTIONS")
    assert (served.get(path, method="OPTIONS").status, served.get(path, method="HEAD").status) == (204, 200)
    assert served.get(path, method="OPTIONS", token="").status == 401
    assert served.get(path, accept="text/html").status == 406
    assert served.get(path, accept="text/html, application/*;q=0.1").status == 200
    assert served.get("/metrics", accept="application/openmetrics-text, */*;q=0.1", token=served.narrow).status == 403


@pytest.mark.parametrize(
    ("said", "allowed"),
    [("", True), ("*/*", True), ("application/json;q=0", False), ("text/*", False), ("application/json; q=0.5", True)],
)
def test_accept_is_read(said, allowed):
    assert accepts(said, "application/json") is allowed


def test_a_replica_that_does_not_lead_says_so_where_only_the_leader_knows():
    """It has no prices: an empty list of offers would be a lie."""
    with World("follower pages") as world:
        furnish(world)
        Replica(world, "one", HTTPS)
        settle(world)
        second = Replica(world, "two", HTTPS)
        settle(world)
        rule = {"apiGroups": ["tgp.io"], "resources": ["offers", "plans", "gpurequests"], "verbs": ["list"]}
        allow(world, "reads", rule)
        token = a_token(world)
        answers = {path: ask(world, second, token, f"/api/v1/{path}") for path in ("offers", "plan", "requests")}

        assert {path: reply.status for path, reply in answers.items()} == {"offers": 503, "plan": 503, "requests": 200}
        assert "does not lead" in answers["plan"].text("message")


def test_the_usual_number_of_rows_is_said_in_the_document(served):
    told = next(each.about for each in ENTRIES if each.about.name == "requests").parameters["limit"]

    assert str(USUAL_ROWS) in told[1]
