"""The Node of a request is proved by the Node: what a status says of it is not read."""

import msgspec
import pytest

from tests.core.pools.builders import a_node, a_request, an_attempt
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.token import plain_uid
from tgp.core.requests.own_node import is_own_node, owners_of, reserved_node_name

UID = "00000000-0000-4000-8000-0000000000aa"
TOKEN = f"tgp-0123456789-{plain_uid(UID)}-1"
POWER = {"provider": "webhook", "instanceType": "cellar-1", "bootMode": "power", "gpuType": "T4", "gpuCount": 1}


def a_claim(**changes):
    given = {"attempts": [an_attempt(token=TOKEN)], "nodeName": "control-plane", **changes}
    return msgspec.structs.replace(a_request("train", **given), uid=UID)


def own_node_of(request, **changes):
    usual = {"labels": {"tgp.io/request-uid": UID}, "provider_id": f"tgp://simulated/{TOKEN}"}
    return a_node(reserved_node_name(request), **{**usual, **changes})


def test_the_name_is_derived_and_the_status_is_not_read():
    request = a_claim()

    assert reserved_node_name(request).startswith("train-")
    assert is_own_node(request, own_node_of(request))
    assert owners_of(own_node_of(request), [request, a_request("other")]) == [request]
    assert not is_own_node(request, own_node_of(request, key=ObjectKey("", "control-plane")))


@pytest.mark.parametrize(
    "changes",
    [
        {"labels": {}},
        {"labels": {"tgp.io/request-uid": "another"}},
        {"provider_id": ""},
        {"provider_id": f"tgp://vultr/{TOKEN}"},
        {"unreadable": "status: not an object"},
    ],
    ids=["unlabelled", "of another request", "without an ID", "of another provider", "unreadable"],
)
def test_a_node_that_does_not_prove_it_is_not_its_own(changes):
    request = a_claim()

    assert not is_own_node(request, own_node_of(request, **changes))


def test_an_attempt_with_the_token_of_another_request_reserves_no_name():
    token = f"tgp-0123456789-{'b' * 32}-1"
    request = a_claim(attempts=[an_attempt(token=token)])

    assert reserved_node_name(request) == ""
    assert not is_own_node(request, a_node("", labels={"tgp.io/request-uid": UID}))


def test_a_machine_you_own_is_known_by_the_label_and_a_record_alone_is_no_proof():
    request = a_claim(attempts=[{**an_attempt(token=TOKEN), "offer": POWER}])

    assert is_own_node(request, a_node("cellar-1", labels={"tgp.io/request-uid": UID}))
    assert not is_own_node(request, a_node("cellar-1"))
    assert not is_own_node(request, a_node("cellar-2", labels={"tgp.io/request-uid": UID}))
