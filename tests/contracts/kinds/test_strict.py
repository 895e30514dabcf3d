"""`strict` takes on creation what the API server takes, and refuses the rest: numbers, metadata, status, texts."""

import copy
import os
import random
from typing import Any

import pytest

from tests.amounts import amount
from tests.contracts.kinds.manifests import Maker, Manifest
from tests.contracts.kinds.real_api_server import RealApiServer, side_by_side
from tgp.api.decoding import UnreadableObject, decode, strict
from tgp.api.field_error import Invalid
from tgp.api.kinds import KINDS

MANIFESTS = amount(800, 10000, "TGP_MANIFESTS") // 4
SEED = os.environ.get("TGP_SEED", "1")
ODD_NUMBERS = (1.0, 2.0, 1.0000000000000002, 1.0000000001, 0.9999999999999999, 1.5, 1e2, 2.0**53, -0.0, 2**63)
ODD_METADATA: tuple[dict[str, Any], ...] = (
    {},
    {"name": ""},
    {"name": "A"},
    {"name": "a..b"},
    {"name": "a_b"},
    {"name": "a" * 254},
    {"name": 1},
    {"generateName": "b-"},
    {"generateName": "B-"},
    {"name": "a", "generateName": "B"},
    {"name": "a", "labels": {"a b": "c"}},
    {"name": "a", "labels": {"a": "c d"}},
    {"name": "a", "labels": {"a": "x" * 64}},
    {"name": "a", "labels": {"x/" + "y" * 64: "a"}},
    {"name": "a", "labels": {"X/y": "a"}},
    {"name": "a", "labels": {"": "a"}},
    {"name": "a", "labels": {"a": 1}},
    {"name": "a", "labels": []},
    {"name": "a", "labels": None},
    {"name": "a", "annotations": {"A/b": "any text"}},
    {"name": "a", "annotations": {"a b": "c"}},
    {"name": "a", "annotations": {"a": "x" * 262_145}},
    {"name": "a", "finalizers": ["x"]},
    {"name": "a", "finalizers": ["tgp.io/x", ""]},
    {"name": "a", "finalizers": ["a b/c"]},
    {"name": "a", "finalizers": "x"},
    {"name": "a", "ownerReferences": [{"name": "x"}]},
    {"name": "a", "ownerReferences": [{"name": "x", "kind": "Y", "apiVersion": "v1", "uid": "u"}]},
    {
        "name": "a",
        "ownerReferences": [{"name": "x", "kind": "Y", "apiVersion": "v1", "uid": "u", "controller": True}] * 2,
    },
    {
        "name": "a",
        "ownerReferences": [
            {"name": name, "kind": "Y", "apiVersion": "v1", "uid": "u", "controller": True} for name in ("x", "z")
        ],
    },
    {"name": "a", "creationTimestamp": "nonsense"},
    {"name": "a", "generation": 1.0},
    {"name": "a", "generation": "x"},
    {"name": "a", "resourceVersion": "5"},
    {"name": "a", "nonsense": 1},
)
ODD_STATUSES: tuple[Any, ...] = (
    {"phase": 5},
    {"nonsense": 1},
    {"conditions": "x"},
    {"conditions": [{"type": "a"}]},
    None,
)
GRIN = "\U0001f600"


def manifests() -> list[Manifest]:
    """Whole ones, each with something odd where the rules of its spec say nothing."""
    made = []
    for kind in KINDS:
        maker = Maker(kind, f"{SEED}/strict")
        luck = random.Random(f"{SEED}/{kind.resource.kind}")
        for metadata in ODD_METADATA:
            whole = maker.whole()
            kept = {"namespace": "default"} if kind.resource.namespaced else {}
            made.append(
                Manifest(kind, {**whole, "metadata": {**kept, **copy.deepcopy(metadata)}}, f"metadata {metadata}")
            )
        for status in ODD_STATUSES:
            made.append(Manifest(kind, {**maker.whole(), "status": copy.deepcopy(status)}, f"status {status}"))
        for _ in range(MANIFESTS // len(KINDS)):
            whole = maker.whole(0.6)
            number = luck.choice(ODD_NUMBERS)
            if place := _a_number(whole["spec"], luck):
                holder, step = place
                holder[step] = number
                made.append(Manifest(kind, whole, f"{step} becomes {number!r}"))
    return made


def _a_number(value: Any, luck: random.Random) -> tuple[Any, Any] | None:
    found: list[tuple[Any, Any]] = []

    def look(at: Any) -> None:
        for step, inner in at.items() if isinstance(at, dict) else enumerate(at):
            if isinstance(inner, int) and not isinstance(inner, bool):
                found.append((at, step))
            elif isinstance(inner, dict | list):
                look(inner)

    look(value)
    return luck.choice(found) if found else None


def verdict(manifest: dict[str, Any]) -> str:
    try:
        strict(manifest)
    except Invalid as error:
        return str(error)
    return ""


def test_strict_and_the_api_server_agree_beyond_the_spec_s_rules(real_server: RealApiServer):
    trials = manifests()
    answers = side_by_side(lambda trial: real_server.try_create(trial.kind, trial.object), trials)
    accepted, disagreements, unreadable = 0, [], []
    for trial, answer in zip(trials, answers, strict=True):
        assert answer.status in (200, 201, 400, 422), answer.message
        accepted += answer.accepted
        ours = verdict(trial.object)
        if answer.accepted == bool(ours):
            disagreements.append(f"{trial.how}: the server says {answer.message or 'yes'}, we say {ours or 'yes'}")
        if answer.accepted and isinstance(read := decode(trial.kind.type, answer.body), UnreadableObject):
            unreadable.append(f"{trial.how}: {read.why}")

    assert disagreements == []
    assert unreadable == []
    assert len(trials) // 5 < accepted < len(trials)


@pytest.mark.parametrize("text", ["\ud83d", "a\ude00", "\ude00\ud83d"])
def test_half_a_character_is_refused_by_its_field_where_the_server_would_change_it(
    real_server: RealApiServer, text: str
):
    manifest = a_class(text)
    answer = real_server.try_create(KINDS[0], manifest)

    assert answer.accepted
    assert "\ufffd" in answer.body["metadata"]["annotations"]["a"]
    assert "metadata.annotations.a" in verdict(manifest)


def test_a_character_in_two_halves_is_one(real_server: RealApiServer):
    manifest = a_class("\ud83d\ude00")
    answer = real_server.try_create(KINDS[0], manifest)

    assert answer.body["metadata"]["annotations"]["a"] == GRIN
    assert strict(manifest).metadata.annotations["a"] == GRIN


@pytest.mark.parametrize(
    ("inner", "taken"),
    [
        ({"name": "s"}, True),
        ({"name": "s", "clientIdKey": "client-id"}, True),
        ({"name": "s", "clientIdKey": "x"}, False),
    ],
)
def test_equal_credentials_at_class_and_provider_do_not_contradict_each_other(
    real_server: RealApiServer, inner: dict, taken: bool
):
    """Defaults are filled in for the class, and not for items of lists."""
    manifest = a_class("a")
    manifest["spec"] = {
        "tailscaleConfig": {"oauthCredentialsSecretRef": {"name": "s"}},
        "providers": [
            {"name": "vultr", "talosConfig": {"tailscaleConfig": {"oauthCredentialsSecretRef": inner}}},
        ],
    }
    answer = real_server.try_create(KINDS[0], manifest)

    assert answer.accepted is taken, answer.message
    assert (verdict(manifest) == "") is taken
    assert "no such key" not in answer.message


def a_class(text: str) -> dict[str, Any]:
    metadata = {"name": "a", "annotations": {"a": text}}
    spec = {"providers": [{"name": "vultr"}]}
    assert KINDS[0].resource.kind == "GPUNodeClass"
    return {"apiVersion": "tgp.io/v1", "kind": "GPUNodeClass", "metadata": metadata, "spec": spec}
