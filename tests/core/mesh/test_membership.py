from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.adapters.mesh.membership import FoundDevice, Member, found_in, leaving
from tgp.core.model.mesh import Device, DeviceRef

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
TAGS = ("tag:tgp-gpu",)
TRACE = DeviceRef("train", NOW)


def a_member(device_id: str = "n1", key_id: str = "", **changes: object) -> Member:
    base = Device(device_id, "train", name="train.tail.ts.net", addresses=("100.64.0.9",), tags=TAGS, created_at=NOW)
    return Member(replace(base, **changes), key_id)  # type: ignore[arg-type]


def the_one(listed: list[Member], trace: DeviceRef) -> Device | None:
    """Where the mesh tells no keys; None: none, or several."""
    found = found_in(listed, trace, TAGS, tells_keys=False)
    return found.devices[0] if len(found.devices) == 1 else None


def gone(listed: list[Member], trace: DeviceRef) -> list[str]:
    return leaving(listed, trace, TAGS, NOW, named_since=None)


members = st.lists(
    st.builds(
        lambda number, hostname, tags, age, key, online, address: a_member(
            f"n{number}",
            key,
            hostname=hostname,
            tags=tags,
            created_at=None if age is None else NOW + timedelta(seconds=age),
            online=online,
            addresses=(address,),
        ),
        st.integers(1, 6),
        st.sampled_from(["train", "train-1", "TRAIN", ""]),
        st.sampled_from([(), TAGS, ("tag:office",), (*TAGS, "tag:office")]),
        st.sampled_from([None, -3600, -1, 0, 60]),
        st.sampled_from(["", "k1", "k2"]),
        st.sampled_from([None, True, False]),
        st.sampled_from(["100.64.0.9", "100.64.0.10"]),
    ),
    max_size=6,
    unique_by=lambda member: member.device.id,
)
traces = st.builds(
    lambda hostname, key, device, addresses: DeviceRef(hostname, NOW, key, device, addresses),
    st.sampled_from(["train", ""]),
    st.sampled_from(["", "k1"]),
    st.sampled_from(["", "n1", "n9"]),
    st.sampled_from([(), ("100.64.0.9",), ("192.168.0.1",)]),
)


def _is_a_claim(member: Member, trace: DeviceRef) -> bool:
    device = member.device
    tagged = set(TAGS) <= set(device.tags)
    return (
        (trace.device_id != "" and device.id == trace.device_id)
        or (trace.key_id != "" and member.key_id == trace.key_id)
        or (tagged and bool(set(device.addresses) & set(trace.addresses)) and not trace.device_id)
        or (tagged and trace.hostname != "" and device.hostname == trace.hostname)
    )


@given(members, traces)
def test_nothing_is_taken_that_is_older_or_has_no_claim(listed: list[Member], trace: DeviceRef) -> None:
    found = the_one(listed, trace)
    if found is not None:
        (member,) = [each for each in listed if each.device is found]
        assert found.created_at is None or found.created_at >= NOW
        assert _is_a_claim(member, trace)


@given(members, traces)
def test_nothing_is_removed_that_is_older_or_has_no_claim_but_its_address(
    listed: list[Member], trace: DeviceRef
) -> None:
    for device_id in gone(listed, trace):
        (member,) = [each for each in listed if each.device.id == device_id]
        assert member.device.created_at is None or member.device.created_at >= NOW
        assert _is_a_claim(member, replace(trace, addresses=()))


@given(members, traces)
def test_a_device_that_was_found_is_removed(listed: list[Member], trace: DeviceRef) -> None:
    """Its id is in the record from then on."""
    found = the_one(listed, trace)
    if found is not None:
        assert gone(listed, replace(trace, device_id=found.id)) == [found.id]


def test_its_id_is_the_surest() -> None:
    ours, other = a_member("n1", hostname="renamed", tags=()), a_member("n2")

    assert the_one([other, ours], replace(TRACE, device_id="n1")) == ours.device


def test_a_name_that_the_mesh_made_decides_nothing() -> None:
    theirs = a_member("n1", hostname="somebodys", name="train.tail.ts.net")

    assert the_one([theirs], TRACE) is None
    assert gone([theirs], TRACE) == []


def test_seconds_that_are_not_told_do_not_make_a_device_older() -> None:
    assert the_one([a_member()], replace(TRACE, since=NOW + timedelta(milliseconds=900))) is not None
    assert the_one([a_member()], replace(TRACE, since=NOW + timedelta(seconds=1))) is None


def test_a_device_without_a_creation_time_is_not_matched_by_its_hostname() -> None:
    assert the_one([a_member(created_at=None)], TRACE) is None
    assert gone([a_member(created_at=None)], TRACE) == []


def test_two_of_one_name_are_not_guessed_between() -> None:
    found = found_in([a_member("n1"), a_member("n2")], TRACE, TAGS, tells_keys=False)

    assert [device.id for device in found.devices] == ["n1", "n2"]
    assert found.by_name


def test_where_keys_are_told_a_name_decides_nothing() -> None:
    """Another device may have the reserved hostname and our tags before our own joins."""
    trace = replace(TRACE, key_id="k1")

    assert found_in([a_member("n1", "k2")], trace, TAGS, tells_keys=True) == FoundDevice(())
    assert found_in([a_member("n1", "k2"), a_member("n2", "k1")], trace, TAGS, tells_keys=True).devices[0].id == "n2"


def test_a_name_tells_nothing_of_devices_from_before_the_key_was_used() -> None:
    used = NOW + timedelta(minutes=1)

    assert leaving([a_member("n1")], TRACE, TAGS, NOW, named_since=used) == []
    assert leaving([a_member("n1", created_at=used)], TRACE, TAGS, NOW, named_since=used) == ["n1"]


@pytest.mark.parametrize(
    ("online", "last_seen", "goes"),
    [
        (True, None, False),
        (False, None, True),
        (None, None, False),
        (None, NOW - timedelta(minutes=9), False),
        (None, NOW - timedelta(minutes=11), True),
        (True, NOW - timedelta(days=1), False),
    ],
)
def test_of_two_of_one_name_only_the_silent_goes(online: bool | None, last_seen: datetime | None, goes: bool) -> None:
    doubtful, at_work = a_member("n1", online=online, last_seen=last_seen), a_member("n2", online=True)

    assert gone([doubtful, at_work], TRACE) == (["n1"] if goes else [])


def test_when_its_device_is_gone_a_namesake_at_work_stays() -> None:
    removed = replace(TRACE, device_id="n9")

    assert gone([a_member("n2", online=True)], removed) == []
    assert gone([a_member("n2", online=False)], removed) == ["n2"]
