"""The simulator under clients that write differently: gcloud's single looks, nulls, and whatever curl sends."""

import json
from base64 import urlsafe_b64encode
from typing import Any

import pytest

from tests.contracts.clouds.gcp.test_simulator import ROOT, Visitor
from tgp.ports.http import Call, Reply
from tgp.sim.clouds.gcp import filters
from tgp.sim.clouds.machine import Phase

ZONE = "us-central1-a"


@pytest.fixture
def visitor():
    made = Visitor()
    yield made
    made.end()


def envelope(reply: Reply) -> int:
    body = json.loads(reply.content)
    assert body["error"]["code"] == reply.status
    return reply.status


def page_at(words: str) -> str:
    return urlsafe_b64encode(words.encode()).decode()


@pytest.mark.parametrize(
    "query",
    [
        ("pageToken", page_at("begin=²")),
        ("pageToken", page_at("begin=" + "9" * 5000)),
        ("pageToken", "ü"),
        ("maxResults", "0" * 5000),
        ("maxResults", "000000999999"),
        ("fields", "a/" * 3000 + "a"),
        ("fields", "a(" * 3000),
        ("fields", ","),
        ("filter", "name eq ["),
        ("filter", "("),
    ],
)
def test_odd_questions_are_refused_in_the_envelope(visitor: Visitor, query: tuple[str, str]):
    assert envelope(visitor.ask(Call("GET", f"{ROOT}/aggregated/instances", query=(query,)))) == 400


@pytest.mark.parametrize(
    "path", [f"{ROOT}/zones/{ZONE}/instances", "/v1/projects/tgp-pretend-project:testIamPermissions"]
)
@pytest.mark.parametrize(
    "body", [b"{", b"\xff", b'{"name": "\xff"}', b"[" * 100_000, b'{"a":' * 50_000, b"null", b"1e999"]
)
def test_a_body_that_is_no_json_is_refused_in_the_envelope(visitor: Visitor, path: str, body: bytes):
    assert envelope(visitor.ask(Call("POST", path, body=body))) == 400


def test_unknown_parameters_are_ignored(visitor: Visitor):
    assert visitor.get("aggregated/instances", prettyPrint="false", quotaUser="me", colour="red")["kind"]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (f"zones/{ZONE}", "compute#zone"),
        ("regions/us-central1", "compute#region"),
        (f"zones/{ZONE}/machineTypes/g2-standard-4", "compute#machineType"),
        (f"zones/{ZONE}/acceleratorTypes/nvidia-tesla-t4", "compute#acceleratorType"),
    ],
)
def test_what_is_listed_can_be_looked_at_alone(visitor: Visitor, path: str, kind: str):
    """gcloud asks for each before it orders."""
    found = visitor.get(path)

    assert (found["kind"], found["name"]) == (kind, path.rpartition("/")[2])
    assert visitor.get(path, fields="name") == {"name": found["name"]}


@pytest.mark.parametrize(
    "path", ["regions/mars", f"zones/{ZONE}/machineTypes/nope", f"zones/{ZONE}/acceleratorTypes/nope"]
)
def test_what_is_not_there_is_not_found(visitor: Visitor, path: str):
    assert envelope(visitor.ask(Call("GET", f"{ROOT}/{path}"))) == 404


@pytest.mark.parametrize("field", ["tags", "description", "guestAccelerators", "serviceAccounts", "hostname"])
def test_a_field_that_is_null_was_not_given(visitor: Visitor, field: str):
    reply = ordered_with_null(visitor, field)

    assert (reply.status, reply.json()["kind"]) == (200, "compute#operation")


def ordered_with_null(visitor: Visitor, field: str) -> Reply:
    """`Visitor.order` leaves nulls out, so this says it in the body's own words."""
    sent: list[Call] = []
    ask = visitor.ask

    def with_null(call: Call) -> Reply:
        body: dict[str, Any] = json.loads(call.body) | {field: None}
        sent.append(call)
        return ask(Call(call.method, call.path, call.query, call.headers, json.dumps(body).encode()))

    visitor.ask = with_null  # type: ignore[method-assign]
    reply = visitor.order()
    assert sent
    return reply


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("(team = x) AND ((status = STAGING) OR (status = RUNNING))", "ab"),
        ("team=x AND status!=RUNNING", "a"),
        ("team = x status = RUNNING", "b"),
        ("((team = x))", "ab"),
        ("NOT team = x", "c"),
        ("status = RUNNING OR NOT (team = x)", "bc"),
        ("(name = \"a\") OR name = 'c'", "ac"),
    ],
)
def test_filters_as_other_tools_write_them(text: str, kept: str):
    """SkyPilot nests parentheses, people leave them out."""
    rows = [
        {"name": "a", "team": "x", "status": "STAGING"},
        {"name": "b", "team": "x", "status": "RUNNING"},
        {"name": "c", "team": "y", "status": "STAGING"},
    ]

    assert "".join(row["name"] for row in rows if filters.parse(text)(row)) == kept


@pytest.mark.parametrize(
    "text", ["a=b AND", "OR a=b", "a=b)", "(a=b", "NOT", "(" * 3000, "NOT " * 3000 + "a=b", "a=b AND c"]
)
def test_filters_that_do_not_end_well_are_refused(text: str):
    with pytest.raises(filters.BadFilter):
        filters.parse(text)


def test_labels_can_be_set_anew(visitor: Visitor):
    name = visitor.order().json()["targetLink"].rpartition("/")[2]
    (machine,) = visitor.cloud.fleet.machines.values()

    def set_to(labels: Any) -> Reply:
        body = json.dumps({"labels": labels, "labelFingerprint": "42WmSpB8rSM="}).encode()
        return visitor.ask(Call("POST", f"{ROOT}/zones/{ZONE}/instances/{name}/setLabels", body=body))

    assert set_to({"team": "vision"}).json()["operationType"] == "setLabels"
    assert machine.tags == {"team": "vision"}
    assert envelope(set_to({"Team": "x"})) == envelope(set_to([])) == 400
    assert machine.tags == {"team": "vision"}


def test_a_machine_that_is_stopped_by_hand_is_there_and_costs(visitor: Visitor):
    name = visitor.order().json()["targetLink"].rpartition("/")[2]
    (machine,) = visitor.cloud.fleet.machines.values()
    machine.phase = Phase.RUNNING
    path = f"{ROOT}/zones/{ZONE}/instances/{name}"

    stopped = visitor.ask(Call("POST", f"{path}/stop")).json()
    assert (stopped["kind"], stopped["operationType"]) == ("compute#operation", "stop")
    assert machine.phase is Phase.STOPPED
    assert machine.charged_microusd == machine.idle_rate_microusd > 0
    assert visitor.ask(Call("POST", f"{path}/start")).json()["operationType"] == "start"
    assert machine.phase is not Phase.STOPPED
    assert envelope(visitor.ask(Call("POST", f"{ROOT}/zones/{ZONE}/instances/absent/stop"))) == 404
