"""One request per machine, one living request per anchor, and a name that is the same whatever makes it."""

import msgspec
import pytest

from tests.core.pools.builders import POOL_UID, a_pod, a_pool, a_request, an_offer, an_order
from tgp.api.request import GPURequest
from tgp.core.model.attempts import copied, marked
from tgp.core.model.object_key import ObjectKey
from tgp.core.pools.orders import (
    AnchoredOrder,
    anchored,
    bought_for,
    family,
    free_names,
    is_ours,
    manifest_of,
    most_microusd,
    pinned,
    record_of,
    request_name,
    slot_number,
    slot_of,
)
from tgp.core.requests.node_metadata import pool_uid

KEY = ObjectKey("default", "train-0123456789")


def anchors(orders, taken=()):
    return [each.anchor for each in anchored(orders, taken)]


def test_the_anchor_is_the_smallest_pod_that_anchors_nothing():
    a, b, c = a_pod("a"), a_pod("b"), a_pod("c")

    assert anchors([an_order(b, a), an_order(c)]) == ["uid-a", "uid-c"]
    assert anchors([an_order(b, a), an_order(c)], taken={"uid-a"}) == ["uid-b", "uid-c"]


def test_an_order_whose_pods_all_anchor_something_is_left_out():
    """Machines on their way never outnumber waiting pods."""
    a = a_pod("a")

    assert anchors([an_order(a)], taken={"uid-a"}) == []
    assert anchors([an_order(a), an_order(a)]) == ["uid-a"]


@pytest.mark.parametrize(
    ("instead", "anchor"),
    [
        ({"uid-a": ["uid-b"]}, ["uid-b"]),
        ({"uid-a": ["uid-b", "uid-c"]}, ["uid-b"]),
        ({"uid-a": ["uid-d"], "uid-d": ["uid-c"]}, ["uid-c"]),
        ({"uid-a": ["uid-a"]}, []),
        ({"uid-a": ["uid-d"], "uid-d": ["uid-a"]}, []),
        ({"uid-d": ["uid-b"]}, []),
    ],
    ids=["one", "the smallest", "one after another", "itself", "in a circle", "of another machine"],
)
def test_a_pod_that_gets_the_machine_of_another_anchors_the_new_one(instead, anchor):
    found = anchored([an_order(a_pod("a"))], {"uid-a", "uid-d"}, instead)

    assert [each.anchor for each in found] == anchor


def test_a_name_follows_from_pool_anchor_and_ordinal_alone():
    names = [request_name("train", POOL_UID, "uid-a", ordinal) for ordinal in (0, 0, 1)]

    assert names[0] == names[1] != names[2]
    assert names[0].startswith("train-")
    assert len(names[0]) == len("train-") + 10
    assert len(request_name("x" * 63, POOL_UID, "uid-a", 0)) == 63


def test_names_that_are_taken_are_left_out():
    first, second, *_ = free_names(a_pool(), "uid-a", lambda _key: False)

    assert next(free_names(a_pool(), "uid-a", lambda key: key == first)) == second


def test_a_request_tells_all_pods_that_it_was_bought_for():
    one, other = a_pod("a"), a_pod("b")
    manifest = manifest_of(KEY, AnchoredOrder(an_order(one, other), "uid-a"), a_pool(), "rented", "plan-7")

    assert bought_for(record_of(manifest, a_pool())) == {"uid-a": family(one), "uid-b": family(other)}


@pytest.mark.parametrize("text", ["", "[]", '{"family": "uid"}'])
def test_pods_that_cannot_be_read_leave_the_anchor(text):
    record = a_request(anchor="uid-a")
    record = msgspec.structs.replace(record, annotations={**record.annotations, "tgp.io/pods": text})

    assert bought_for(record) == {"uid-a": "uid-a"}


def test_a_request_is_written_as_the_plan_ordered_it():
    pool = a_pool(template={"spec": {"terminationGracePeriod": "2h"}})
    order = an_order(a_pod("a"), offer=an_offer(spot=True))
    manifest = manifest_of(KEY, AnchoredOrder(order, "uid-a"), pool, "rented", "plan-7")

    assert manifest["metadata"]["annotations"] == {
        "tgp.io/for": "uid-a",
        "tgp.io/pods": f'{{"{family(a_pod("a"))}":["uid-a"]}}',
        "tgp.io/plan": "plan-7",
        "tgp.io/uid": f"{POOL_UID}/{KEY.name}",
        "velero.io/exclude-from-backup": "true",
    }
    assert manifest["metadata"]["finalizers"] == ["tgp.io/machine"]
    (owner,) = manifest["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == (
        "GPUNodePool",
        POOL_UID,
        True,
        True,
    )
    assert manifest["spec"] == {
        "nodeClassRef": {"name": "rented"},
        "offer": {"provider": "simulated", "instanceType": "t4.1", "region": "us-west-1"},
        "gpuType": "T4",
        "gpuCount": 1,
        "spot": True,
        "maxHourlyPrice": "0.42",
        "maxLifetime": "Never",
        "idleTimeout": "30m",
        "terminationGracePeriod": "2h",
    }


def test_the_price_that_binds_is_the_lower_of_ceiling_and_plan():
    order = an_order(a_pod())

    assert most_microusd(order, a_pool().value) == 420_000
    assert most_microusd(order, a_pool(maxHourlyPrice="0.41").value) == 410_000
    assert most_microusd(an_order(a_pod(), offer=an_offer(price=1)), a_pool().value) == 2


@pytest.mark.parametrize(
    ("place", "region", "where"),
    [
        ("us-west-1", "us-west", {"region": "us-west-1"}),
        ("Oslo, NO", "eu-north", {"region": "eu-north"}),
        ("", "unknown", {}),
    ],
)
def test_an_offer_is_pinned_as_exactly_as_the_field_allows(place, region, where):
    found = pinned(an_offer(place=place, region=region))

    assert found == {"provider": "simulated", "instanceType": "t4.1", **where}


def test_what_is_created_stands_in_for_what_the_view_will_show():
    pool = a_pool()
    record = record_of(manifest_of(KEY, AnchoredOrder(an_order(a_pod("a")), "uid-a"), pool, "rented", "p"), pool)

    assert (record.key, pool_uid(record)) == (KEY, POOL_UID)
    assert isinstance(record.value, GPURequest)
    assert record.value.spec.max_hourly_price == "0.42"


def test_what_a_pool_creates_is_marked_as_itself_and_a_copy_of_it_under_another_name_or_owner_is_not():
    """The mark is written with the request, before there is a uid."""
    pool = a_pool()
    record = record_of(manifest_of(KEY, AnchoredOrder(an_order(a_pod("a")), "uid-a"), pool, "rented", "p"), pool)

    assert (marked(record), copied(record)) == (True, False)
    for copy in (
        msgspec.structs.replace(record, key=ObjectKey("default", "train-copy")),
        msgspec.structs.replace(record, owners=()),
    ):
        assert (marked(copy), copied(copy)) == (False, True)


def test_a_name_that_exists_is_a_success_only_if_it_is_the_same_living_request():
    pool = a_pool()
    found = manifest_of(KEY, AnchoredOrder(an_order(a_pod("a")), "uid-a"), pool, "rented", "p")

    assert is_ours(found, pool, "uid-a")
    assert not is_ours(found, pool, "uid-b")
    assert not is_ours(found, a_pool(uid="another"), "uid-a")
    assert not is_ours({**found, "status": {"phase": "Failed"}}, pool, "uid-a")
    deleting = {**found, "metadata": {**found["metadata"], "deletionTimestamp": "2026-11-17T12:00:00Z"}}
    assert not is_ours(deleting, pool, "uid-a")
    assert not is_ours({"metadata": {"name": KEY.name}}, pool, "uid-a")


def test_slots_are_anchors_with_a_number():
    assert slot_number(slot_of(POOL_UID, 12)) == 12
    assert slot_number("uid-a") is None
    assert slot_of(POOL_UID, 0) != slot_of("another", 0)


@pytest.mark.parametrize("number", ["²", "٣", "", "-1", "1" * 5000])
def test_an_annotation_that_a_user_has_edited_names_no_slot(number):
    assert slot_number(f"slot-{number}.{POOL_UID}") is None


def test_an_annotation_that_a_user_has_filled_up_names_no_pods_without_end():
    many = {"family": [f"uid-{number}" for number in range(5_000)], "f" * 5_000: ["uid-x"], "g": ["u" * 5_000]}
    record = msgspec.structs.replace(a_request(), annotations={"tgp.io/pods": msgspec.json.encode(many).decode()})

    found = bought_for(record)

    assert 0 < len(found) <= 256
    assert set(found.values()) == {"family"}
