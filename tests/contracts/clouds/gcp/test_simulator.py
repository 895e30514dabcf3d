"""The pretend Google Cloud refuses what the documented one refuses, and answers in its shapes."""

import json
from datetime import timedelta
from typing import Any

import pytest

from tests.contracts.clouds.gcp.gcp_stage import an_order, settings
from tgp.adapters.clouds.gcp.account import read_key
from tgp.adapters.clouds.gcp.launching import launch
from tgp.adapters.clouds.gcp.tokens import assertion
from tgp.core.model.secret import Secret
from tgp.ports.http import Call, Reply
from tgp.sim.clock import WorldClock
from tgp.sim.clouds.gcp import GcpSimulator, filters, masks
from tgp.sim.loop import VirtualLoop, close

ROOT = "/compute/v1/projects/tgp-pretend-project"
TOKEN_PATH = "/token"


class Visitor:
    """Speaks to the simulator as it is, with a signed statement for a token."""

    def __init__(self) -> None:
        self._loop = VirtualLoop()
        self.clock = WorldClock(self._loop)
        self.cloud = GcpSimulator(self.clock, "visited")
        self.account = read_key(Secret(self.cloud.key))
        self.bearer = assertion(self.account, self.clock.now())

    def ask(self, call: Call) -> Reply:
        headers = (("Authorization", f"Bearer {self.bearer}"), *call.headers)
        whole = Call(call.method, call.path, call.query, headers, call.body)
        return self._loop.run_until_complete(self.cloud.handle(whole))

    def get(self, path: str, **query: str) -> Any:
        reply = self.ask(Call("GET", f"{ROOT}/{path}", query=tuple(query.items())))
        assert reply.status == 200, reply.content
        return reply.json()

    def order(self, **changes: Any) -> Reply:
        call = launch(an_order(), self.account.project, settings())
        body = {name: value for name, value in (json.loads(call.body) | changes).items() if value is not None}
        return self.ask(Call("POST", call.path, call.query, call.headers, json.dumps(body).encode()))

    def end(self) -> None:
        close(self._loop)


@pytest.fixture
def visitor():
    made = Visitor()
    yield made
    made.end()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"gpuCount": 1}, "gpuCount"),
        ({"scheduling": {"provisioningModel": "SPOT", "spot": True}}, "spot"),
        ({"scheduling": {"provisioningModel": "CHEAP"}}, "scheduling.provisioningModel"),
        ({"scheduling": None}, "live migration"),
        (
            {"scheduling": {"onHostMaintenance": "TERMINATE", "instanceTerminationAction": "DELETE"}},
            "termination action",
        ),
        ({"name": "Upper"}, "resource.name"),
        ({"name": 7}, "instance.name"),
        ({"labels": {"Upper": "x"}}, "labels"),
        ({"labels": {"tgp.io/x": "y"}}, "labels"),
        ({"disks": []}, "boot disk"),
        ({"disks": None}, "boot disk"),
        ({"networkInterfaces": None}, "networkInterfaces"),
        ({"machineType": None}, "machineType"),
        ({"machineType": "zones/us-central1-a/machineTypes/nope"}, "does not exist"),
        ({"machineType": "zones/europe-west4-a/machineTypes/g2-standard-4"}, "another zone"),
        ({"metadata": {"items": [{"key": "a", "value": "b"}, {"key": "a", "value": "c"}]}}, "Duplicate"),
        ({"guestAccelerators": [{"acceleratorType": "x/nvidia-tesla-t4", "acceleratorCount": 1}]}, "nvidia-l4"),
    ],
)
def test_an_order_that_google_would_refuse_makes_no_machine(visitor: Visitor, changes: dict[str, Any], words: str):
    reply = visitor.order(**changes)

    assert reply.status in (400, 404)
    error = reply.json()["error"]
    assert error["code"] == reply.status
    assert words in error["message"]
    assert error["errors"][0]["reason"]
    assert visitor.cloud.fleet.machines == {}


@pytest.mark.parametrize("request_id", ["0" * 32, "not-a-uuid", "00000000-0000-0000-0000-000000000000"])
def test_a_request_id_that_is_none_is_refused(visitor: Visitor, request_id: str):
    call = launch(an_order(), visitor.account.project, settings())

    assert visitor.ask(Call("POST", call.path, (("requestId", request_id),), call.headers, call.body)).status == 400


def test_every_zone_is_in_an_aggregated_list_and_every_page_ends(visitor: Visitor):
    names: list[str] = []
    token = ""
    for _ in range(100):
        page = visitor.get("aggregated/machineTypes", maxResults="9", **({"pageToken": token} if token else {}))
        assert len(page["items"]) == 13
        assert all(("machineTypes" in scope) != ("warning" in scope) for scope in page["items"].values())
        names += [row["selfLink"] for scope in page["items"].values() for row in scope.get("machineTypes", ())]
        token = page.get("nextPageToken", "")
        if not token:
            break

    assert len(names) == len(set(names)) > 150


@pytest.mark.parametrize("query", [{"maxResults": "501"}, {"maxResults": "x"}, {"pageToken": "odd"}, {"fields": "a(b"}])
def test_a_list_asked_for_oddly_is_refused(visitor: Visitor, query: dict[str, str]):
    assert visitor.ask(Call("GET", f"{ROOT}/aggregated/instances", tuple(query.items()))).status == 400


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda parts: [parts[0], parts[1], parts[2][:-4] + "AAAA"], "Invalid JWT Signature"),
        (lambda parts: [parts[0], parts[1]], "Invalid JWT"),
        (lambda parts: ["e30", parts[1], parts[2]], "account not found"),
    ],
)
def test_a_statement_that_was_tampered_with_gets_no_token(visitor: Visitor, change: Any, said: str):
    statement = ".".join(change(visitor.bearer.split(".")))
    body = f"grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion={statement}".encode()
    reply = visitor.ask(Call("POST", TOKEN_PATH, body=body))

    assert reply.status == 400
    assert reply.json()["error"] == "invalid_grant"
    assert said in reply.json()["error_description"]


def test_a_statement_from_yesterday_gets_no_token(visitor: Visitor):
    old = assertion(visitor.account, visitor.clock.now() - timedelta(hours=2))
    body = f"grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion={old}".encode()

    assert "short-lived" in visitor.ask(Call("POST", TOKEN_PATH, body=body)).json()["error_description"]


def test_masks_keep_what_they_name():
    value = {"kind": "k", "items": {"z": {"rows": [{"a": 1, "b": {"c": 2, "d": 3}}], "x": 1}}, "other": 1}

    assert masks.apply(masks.parse("kind,items/*/rows(a,b/c)"), value) == {
        "kind": "k",
        "items": {"z": {"rows": [{"a": 1, "b": {"c": 2}}]}},
    }
    for odd in ("", "a(", "a)", "a,,b", "a/"):
        with pytest.raises(masks.BadMask):
            masks.parse(odd)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('name eq "a.*"', ["ab", "ac"]),
        ("name ne a.*", ["b"]),
        ("name=ab", ["ab"]),
        ('name != "ab"', ["ac", "b"]),
        ("labels.team:*", ["ab"]),
        ("(labels.team=x) (name:a*)", ["ab"]),
        ("(name:a*) AND (name != ab)", ["ac"]),
    ],
)
def test_filters_speak_both_languages(text: str, kept: list[str]):
    rows = [{"name": "ab", "labels": {"team": "x"}}, {"name": "ac"}, {"name": "b"}]

    assert [row["name"] for row in rows if filters.parse(text)(row)] == kept


@pytest.mark.parametrize("text", ["name ~ x", "(name=a", "name eq (", "", "name"])
def test_a_filter_that_cannot_be_read_is_refused(text: str):
    with pytest.raises(filters.BadFilter):
        filters.parse(text)
