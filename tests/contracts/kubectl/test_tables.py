"""Rows and columns of tables, without a server: what kubectl is given to print."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tgp.sim.apiserver.schemas.quantity import canonical_quantity
from tgp.sim.apiserver.tables import printer_for, table
from tgp.sim.apiserver.tables.jsonpath import BadPath, parse
from tgp.sim.apiserver.tables.text import human_duration, selector_text

NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
BORN = "2026-06-01T11:58:30Z"


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (timedelta(seconds=-3), "<invalid>"),
        (timedelta(seconds=-1), "0s"),
        (timedelta(), "0s"),
        (timedelta(seconds=119), "119s"),
        (timedelta(seconds=120), "2m"),
        (timedelta(minutes=9, seconds=59), "9m59s"),
        (timedelta(minutes=10, seconds=30), "10m"),
        (timedelta(hours=2, minutes=59), "179m"),
        (timedelta(hours=3), "3h"),
        (timedelta(hours=7, minutes=59), "7h59m"),
        (timedelta(hours=47), "47h"),
        (timedelta(days=2), "2d"),
        (timedelta(days=7, hours=23), "7d23h"),
        (timedelta(days=729), "729d"),
        (timedelta(days=730), "2y"),
        (timedelta(days=731), "2y1d"),
        (timedelta(days=8 * 365 + 40), "8y"),
    ],
)
def test_an_age_has_two_or_three_figures(length: timedelta, text: str):
    assert human_duration(length) == text


DOCUMENT = {
    "metadata": {"labels": {"tgp.io/pool": "a"}},
    "spec": {"names": ["x", "y"], "sizes": [{"n": 1, "big": False}, {"n": 7, "big": True}]},
    "status": {"conditions": [{"type": "Old", "status": "False"}, {"type": "Ready", "status": "True"}]},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.names[0]", ["x"]),
        (".spec.names[-1]", ["y"]),
        (".spec.names[7]", []),
        (".spec.names[*]", ["x", "y"]),
        ("{.spec.names[1]}", ["y"]),
        (r".metadata.labels.tgp\.io/pool", ["a"]),
        (".metadata.labels['tgp.io/pool']", ["a"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type=='Gone')].status", []),
        (".status.conditions[?(@.type!='Ready')].status", ["False"]),
        (".spec.sizes[?(@.n>1)].n", [7]),
        (".spec.sizes[?(@.n<=1)].n", [1]),
        (".spec.sizes[?(@.big==true)].n", [7]),
        (".spec.sizes[?(@.colour)].n", []),
        (".nothing.at.all", []),
        (".spec.names.length", []),
    ],
)
def test_a_path_leads_to_values(path: str, found: list[Any]):
    assert parse(path).find(DOCUMENT) == found


@pytest.mark.parametrize("path", ["spec", ".spec[", ".a[?(@.b==c)]", ".a[b]", ".a..b"])
def test_an_unreadable_path_is_refused_at_once(path: str):
    with pytest.raises(BadPath):
        parse(path)


def test_a_custom_column_shows_only_what_its_type_promises():
    """A column of the wrong type stays empty rather than showing something else."""
    columns = [
        {"name": "S", "type": "string", "jsonPath": ".v"},
        {"name": "I", "type": "integer", "jsonPath": ".v"},
        {"name": "N", "type": "number", "jsonPath": ".v"},
        {"name": "B", "type": "boolean", "jsonPath": ".v"},
        {"name": "D", "type": "date", "jsonPath": ".v"},
    ]

    def cells(value: Any) -> list[Any]:
        obj = {"metadata": {"name": "one"}, "v": value}
        return table(printer_for("x", "X", columns), [obj], {}, now=NOW)["rows"][0]["cells"][1:]

    assert cells(7) == ["7", 7, 7.0, None, None]
    assert cells(True) == ["true", None, None, True, None]
    assert cells(BORN) == [BORN, None, None, None, "90s"]
    assert cells("soon") == ["soon", None, None, None, "<invalid>"]
    assert cells({"a": [1]}) == ['{"a":[1]}', None, None, None, None]
    assert cells(None) == [None] * 5


def test_a_definition_without_columns_shows_the_age():
    shown = table(printer_for("x", "X", []), [{"metadata": {"name": "one", "creationTimestamp": BORN}}], {}, now=NOW)

    assert [column["name"] for column in shown["columnDefinitions"]] == ["Name", "Age"]
    assert shown["rows"][0]["cells"] == ["one", "90s"]


def _status(pod: dict[str, Any]) -> list[Any]:
    pod.setdefault("metadata", {"name": "p", "creationTimestamp": BORN})
    return table(printer_for("", "Pod"), [pod], {}, now=NOW)["rows"][0]["cells"][1:4]


def _container(name: str, state: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "state": state, "ready": False, "restartCount": 0, **more}


RUNNING = {"running": {"startedAt": BORN}}


@pytest.mark.parametrize(
    ("status", "spec", "cells"),
    [
        ({"phase": "Pending"}, {}, ["0/1", "Pending", "0"]),
        ({"phase": "Failed", "reason": "Evicted"}, {}, ["0/1", "Evicted", "0"]),
        (
            {
                "phase": "Pending",
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
            },
            {},
            ["0/1", "SchedulingGated", "0"],
        ),
        (
            {"phase": "Running", "containerStatuses": [_container("c", RUNNING, ready=True)]},
            {},
            ["1/1", "Running", "0"],
        ),
        (
            {
                "phase": "Running",
                "containerStatuses": [
                    _container(
                        "c",
                        {"waiting": {"reason": "CrashLoopBackOff"}},
                        restartCount=3,
                        lastState={"terminated": {"exitCode": 1, "finishedAt": BORN}},
                    )
                ],
            },
            {},
            ["0/1", "CrashLoopBackOff", "3 (90s ago)"],
        ),
        (
            {"phase": "Failed", "containerStatuses": [_container("c", {"terminated": {"exitCode": 3}})]},
            {},
            ["0/1", "ExitCode:3", "0"],
        ),
        (
            {"phase": "Failed", "containerStatuses": [_container("c", {"terminated": {"exitCode": 137, "signal": 9}})]},
            {},
            ["0/1", "Signal:9", "0"],
        ),
        (
            {
                "phase": "Pending",
                "initContainerStatuses": [_container("i", {"waiting": {"reason": "PodInitializing"}})],
            },
            {"initContainers": [{"name": "i"}, {"name": "j"}]},
            ["0/1", "Init:0/2", "0"],
        ),
        (
            {
                "phase": "Pending",
                "initContainerStatuses": [_container("i", {"terminated": {"exitCode": 1, "reason": "Error"}})],
            },
            {"initContainers": [{"name": "i"}]},
            ["0/1", "Init:Error", "0"],
        ),
        (
            {
                "phase": "Running",
                "initContainerStatuses": [_container("s", RUNNING, started=True, ready=True, restartCount=2)],
                "containerStatuses": [_container("c", RUNNING, ready=True)],
            },
            {"initContainers": [{"name": "s", "restartPolicy": "Always"}]},
            ["2/2", "Running", "2"],
        ),
        (
            {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "False"}],
                "containerStatuses": [
                    _container("c", {"terminated": {"exitCode": 0, "reason": "Completed"}}),
                    _container("d", RUNNING, ready=True),
                ],
            },
            {"containers": [{"name": "c"}, {"name": "d"}]},
            ["1/2", "NotReady", "0"],
        ),
    ],
)
def test_a_pods_row_says_its_state_in_a_word(status: dict[str, Any], spec: dict[str, Any], cells: list[str]):
    assert _status({"spec": {"containers": [{"name": "c"}], **spec}, "status": status}) == cells


def test_a_pod_that_is_going_says_so_unless_it_has_ended():
    meta = {"name": "p", "creationTimestamp": BORN, "deletionTimestamp": BORN}

    assert _status({"metadata": meta, "spec": {}, "status": {"phase": "Running"}})[1] == "Terminating"
    assert _status({"metadata": meta, "spec": {}, "status": {"phase": "Running", "reason": "NodeLost"}})[1] == "Unknown"
    assert _status({"metadata": meta, "spec": {}, "status": {"phase": "Succeeded"}})[1] == "Succeeded"


def test_a_selector_is_written_as_after_the_l_flag():
    selector = {
        "matchLabels": {"b": "2"},
        "matchExpressions": [
            {"key": "c", "operator": "NotIn", "values": ["y", "x"]},
            {"key": "a", "operator": "In", "values": ["1"]},
            {"key": "d", "operator": "Exists"},
            {"key": "e", "operator": "DoesNotExist"},
        ],
    }

    assert selector_text(selector) == "a in (1),b=2,c notin (x,y),d,!e"


def test_a_row_carries_what_the_client_asked_for():
    pod = {"metadata": {"name": "p"}, "spec": {"containers": []}}

    def row(include: str) -> dict[str, Any]:
        return table(printer_for("", "Pod"), [pod], {}, now=NOW, include_object=include)["rows"][0]

    assert row("")["object"] == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"name": "p"},
    }
    assert row("Object")["object"] is pod
    assert "object" not in row("None")


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        (1, "1"),
        ("0.5", "500m"),
        ("1000m", "1"),
        ("1024Mi", "1Gi"),
        ("1500Mi", "1500Mi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("1000k", "1M"),
        ("1e3", "1e3"),
        ("15e2", "1500"),
        ("1e-3", "1e-3"),
        ("0.1n", "1n"),
        ("-5m", "-5m"),
        ("1E", "1E"),
        (7.5, "7500m"),
        ("", None),
        ("1Zi", None),
        ("one", None),
    ],
)
def test_a_quantity_has_one_form(written: str | float, canonical: str | None):
    assert canonical_quantity(written) == canonical
