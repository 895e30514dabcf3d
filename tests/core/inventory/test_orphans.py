"""Which machines no request owns: by token, one machine each, and never another cluster's."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.core.controllers.account_access import CLUSTER, a_machine, a_record, a_token, an_attempt
from tests.core.requests.an_observation import a_condition
from tgp.api.values import microusd
from tgp.core.inventory.orphans import RequestOwner, orphans, owners, too_many
from tgp.core.model.attempts import FINALIZER
from tgp.core.model.instance import Instance
from tgp.core.model.offer import BootMode, Offer
from tgp.core.requests.readoption import reconstructed, unrecorded

ENDED = "2026-01-05T10:00:00Z"


def orphans_among(machines, *records):
    return [orphan.instance.id for orphan in orphans(machines, owners(records), CLUSTER)]


def test_the_machine_of_an_open_attempt_is_owned():
    """Also before its id was written down: the token is enough."""
    assert orphans_among([a_machine(1)], a_record(1, an_attempt(1))) == []


def test_a_machine_whose_request_is_gone_is_an_orphan():
    assert orphans_among([a_machine(1)], a_record(2, an_attempt(2))) == ["i-1-1"]


def test_a_machine_of_an_older_attempt_is_an_orphan():
    """It came after it had been given up; its request has gone on."""
    record = a_record(1, an_attempt(1, 1, endedAt=ENDED), an_attempt(1, 2))

    assert orphans_among([a_machine(1, 1), a_machine(1, 2)], record) == ["i-1-1"]


def test_a_machine_of_an_attempt_that_is_over_is_an_orphan():
    assert orphans_among([a_machine(1)], a_record(1, an_attempt(1, endedAt=ENDED))) == ["i-1-1"]


def test_a_machine_of_a_later_attempt_than_is_recorded_is_an_orphan():
    """A status that was wiped or put back forgets attempts; the request takes a number above all that were seen."""
    assert orphans_among([a_machine(1, 3)], a_record(1)) == ["i-1-3"]


def test_of_two_machines_under_one_token_the_recorded_one_is_kept():
    duplicates = [a_machine(1, id="i-a"), a_machine(1, id="i-b")]

    assert orphans_among(duplicates, a_record(1, an_attempt(1, instanceId="i-b"))) == ["i-a"]


def test_of_two_machines_under_one_token_the_older_is_kept_while_none_is_recorded():
    early, late = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    duplicates = [a_machine(1, id="i-a", created_at=late), a_machine(1, id="i-b", created_at=early)]

    assert orphans_among(duplicates, a_record(1, an_attempt(1))) == ["i-a"]


def test_a_machine_whose_age_is_not_reported_is_the_younger():
    duplicates = [a_machine(1, id="i-a"), a_machine(1, id="i-b", created_at=datetime(2026, 1, 2, tzinfo=UTC))]

    assert orphans_among(duplicates, a_record(1, an_attempt(1))) == ["i-a"]


def test_a_recorded_machine_that_is_not_listed_lets_another_under_its_token_live():
    """There is one machine, and it carries the token of the open attempt: the request adopts it."""
    assert orphans_among([a_machine(1, id="i-b")], a_record(1, an_attempt(1, instanceId="i-a"))) == []


def test_a_restored_copy_owns_nothing():
    """The tokens in its status carry another uid; and its own uid has bought nothing."""
    assert orphans_among([a_machine(1)], a_record(1, an_attempt(2), copy=True)) == ["i-1-1"]


def test_an_annotation_that_a_user_edited_makes_no_machine_an_orphan():
    """Its token says who bought it; the annotation is for copies that have none."""
    assert orphans_among([a_machine(1)], a_record(1, an_attempt(1), copy=True)) == []


def test_a_token_of_another_request_in_a_status_is_not_owned_by_it():
    """A user copied a status by hand: the machine is not adopted across uids."""
    assert orphans_among([a_machine(1)], a_record(2, an_attempt(1))) == ["i-1-1"]


def test_an_unreadable_request_owns_whatever_bears_its_uid():
    """A newer version wrote it: it alone knows which of its attempts are over."""
    record = a_record(1, an_attempt(1, endedAt=ENDED), unreadable=True)

    assert orphans_among([a_machine(1, 1), a_machine(1, 7)], record) == []


@pytest.mark.parametrize(
    "token", ["", "my-workstation", "tgp-", a_token(1, cluster="9876543210"), a_token(1) + "0x", a_token(1).upper()]
)
def test_strangers_are_never_touched(token):
    """Another cluster on the same account, a name like ours, no name at all."""
    assert orphans_among([a_machine(1, token=token)]) == []


def test_each_orphan_comes_with_a_reason_people_can_read():
    owned = {
        a_token(2).split("-")[2]: RequestOwner(a_token(2, 2), "i-2-2"),
        a_token(3).split("-")[2]: RequestOwner(a_token(3), "i-k"),
    }
    machines = [a_machine(1), a_machine(2), a_machine(3, id="i-k"), a_machine(3, id="i-l")]

    assert [orphan.why for orphan in orphans(machines, owned, CLUSTER)] == [
        "no request has the uid in its token",
        "attempt 1 of the request has ended",
        "the request has machine i-k under the same token",
    ]


@pytest.mark.parametrize(
    ("count", "of", "stops"),
    [(1, 1, False), (2, 2, False), (3, 3, True), (3, 14, True), (3, 15, False), (20, 100, False), (21, 100, True)],
)
def test_more_than_two_and_more_than_a_fifth_at_once_stop_the_sweep(count, of, stops):
    assert stops == too_many(count, of)


machines_of_few = st.lists(
    st.builds(
        lambda number, attempt, duplicate: a_machine(number, attempt, id=f"i-{number}-{attempt}-{duplicate}"),
        st.integers(1, 3),
        st.integers(1, 3),
        st.integers(1, 2),
    ),
    unique_by=lambda one: one.id,
)


@settings(deadline=None)  # a busy machine is no finding
@given(machines=machines_of_few, newest=st.integers(1, 3), luck=st.randoms())
def test_of_each_request_at_most_one_machine_is_kept_whatever_the_order_of_the_list(machines, newest, luck):
    """And it is one of its open attempt, if there is any."""
    records = [a_record(number, *(an_attempt(number, n) for n in range(1, newest + 1))) for number in (1, 2)]
    gone = orphans_among(machines, *records)
    shuffled: list[Instance] = list(machines)
    luck.shuffle(shuffled)

    assert gone == orphans_among(shuffled, *records)
    for number in (1, 2, 3):
        open_token = a_token(number, newest)
        kept = [one for one in machines if one.id not in gone and one.token.split("-")[2] == open_token.split("-")[2]]
        candidates = [one for one in machines if one.token == open_token] if number < 3 else []
        assert len(kept) == min(1, len(candidates))
        assert all(one.token == open_token for one in kept)


# -- machines that their requests adopt again --------------------------------------------------------------------------


def guarded(record):
    return replace(record, finalizers=(FINALIZER,))


def left_over(machines, record, highest):
    found = unrecorded(record, machines, highest)
    owned = owners([record], lambda _record: found)
    return (found.id if found is not None else None), [one.instance.id for one in orphans(machines, owned, CLUSTER)]


WIPED = guarded(a_record(1))
ENDED_REQUEST = replace(
    WIPED, value=replace(WIPED.value, status=replace(WIPED.value.status, conditions=(a_condition("Ended"),)))
)


@pytest.mark.parametrize(
    ("record", "machines", "highest", "adopted", "terminated"),
    [
        pytest.param(WIPED, [a_machine(1, 1)], 1, "i-1-1", [], id="its status was wiped"),
        pytest.param(WIPED, [a_machine(1, 1), a_machine(1, 2)], 2, "i-1-2", ["i-1-1"], id="the newest only"),
        pytest.param(WIPED, [a_machine(1, 1)], 2, None, ["i-1-1"], id="a newer one was seen since"),
        pytest.param(
            WIPED,
            [a_machine(1, id="i-a"), a_machine(1, id="i-b")],
            1,
            "i-a",
            ["i-b"],
            id="one of two under the same token",
        ),
        pytest.param(
            guarded(a_record(1, an_attempt(1, 1, endedAt=ENDED))),
            [a_machine(1, 2)],
            2,
            "i-1-2",
            [],
            id="its status was put back",
        ),
        pytest.param(
            guarded(a_record(1, an_attempt(1, 1, endedAt=ENDED))), [a_machine(1)], 1, None, ["i-1-1"], id="it is over"
        ),
        pytest.param(
            guarded(a_record(1, an_attempt(1, 1))), [a_machine(1, 2)], 2, "i-1-2", [], id="put back to a reservation"
        ),
        pytest.param(
            guarded(a_record(1, an_attempt(1, 1))),
            [a_machine(1, 1), a_machine(1, 2)],
            2,
            None,
            ["i-1-2"],
            id="the recorded one is there",
        ),
        pytest.param(a_record(1), [a_machine(1)], 1, None, ["i-1-1"], id="our finalizer was taken off"),
        pytest.param(
            guarded(a_record(1, copy=True)), [a_machine(1)], 1, None, ["i-1-1"], id="a restored copy adopts nothing"
        ),
        pytest.param(ENDED_REQUEST, [a_machine(1)], 1, None, ["i-1-1"], id="a request that has ended"),
        pytest.param(
            replace(WIPED, deletion_requested_at=datetime(2026, 1, 1, tzinfo=UTC)),
            [a_machine(1)],
            1,
            "i-1-1",
            [],
            id="one that is being deleted: its machine goes first",
        ),
        pytest.param(WIPED, [a_machine(2)], 0, None, ["i-2-1"], id="another request's machine"),
    ],
)
def test_a_living_request_keeps_the_machine_of_its_newest_attempt(record, machines, highest, adopted, terminated):
    assert left_over(machines, record, highest) == (adopted, terminated)


NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


def an_offer(**rest):
    known = {"sku": "vcg-a100", "place": "ewr", "region": "us-east", "gpu": "A100-80GB-PCIE", "gpu_count": 2}
    fields = {"provider": "vultr", "gpu_memory_gib": 80, "vcpus": 24, "memory_gib": 240, "disk_gib": 0, "spot": False}
    return Offer(**{**known, **fields, "hourly_microusd": 2_000_000, "boot": BootMode.NATIVE, **rest})


def test_an_attempt_is_reconstructed_from_token_machine_and_offer():
    born = datetime(2026, 1, 5, 9, tzinfo=UTC)
    machine = a_machine(1, 3, sku="vcg-a100", place="ewr", hourly_microusd=1_900_000, created_at=born)
    offers = [an_offer(place="fra", region="eu-central"), an_offer()]

    made = reconstructed(WIPED, machine, "vultr", offers, now=NOW)

    assert (made.number, made.token, made.instance_id, made.outcome) == (3, a_token(1, 3), "i-1-3", "Launched")
    assert (made.launched_at, made.account) == (born, None), "the caller fills in the account"
    assert made.hourly_price == "1.90"
    assert made.offer is not None
    assert (made.offer.gpu_type, made.offer.gpu_count, made.offer.region) == ("A100-80GB-PCIE", 2, "us-east")
    assert made.offer.hourly_price == "1.90", "limits count what is billed"


@pytest.mark.parametrize(
    ("billed", "on_sale", "cap", "agreed", "counted"),
    [
        ("1.90", "2.00", None, "1.90", "1.90"),
        ("4.00", "2.00", None, "4.00", "4.00"),  # it was ordered at the higher price: the market has fallen since
        ("200.00", "2.00", None, "2.00", None),
        ("200.00", "2.00", "3.00", "2.00", None),
        ("4.00", "2.00", "3.00", "3.00", None),
        ("1.90", "200.00", "3.00", "1.90", "1.90"),
        (None, "2.00", "1.50", "1.50", None),
        ("200.00", None, "3.00", "3.00", None),
        ("1.90", None, "3.00", "1.90", "1.90"),
        ("200.00", None, None, "200.00", "200.00"),
        (None, None, "3.00", None, None),
    ],
)
def test_no_single_list_says_what_was_agreed_beyond_the_maximum_or_the_market(billed, on_sale, cap, agreed, counted):
    """A higher price than that is not on the bill either, until a later list repeats it."""
    assert WIPED.value is not None
    record = replace(WIPED, value=replace(WIPED.value, spec=replace(WIPED.value.spec, max_hourly_price=cap)))
    machine = a_machine(1, sku="vcg-a100", place="ewr", hourly_microusd=microusd(billed, "") if billed else None)
    offers = [an_offer(hourly_microusd=microusd(on_sale, ""))] if on_sale else []

    made = reconstructed(record, machine, "vultr", offers, now=NOW)

    assert made.offer is not None
    assert (made.offer.hourly_price, made.hourly_price) == (agreed, counted)


def test_what_is_on_sale_no_more_is_reported_by_the_request_itself():
    made = reconstructed(WIPED, a_machine(1, sku="gone"), "vultr", [], now=NOW)

    assert made.launched_at == NOW
    assert made.offer is not None
    assert (made.offer.instance_type, made.offer.gpu_type, made.offer.gpu_count) == ("gone", "A100", 1)
