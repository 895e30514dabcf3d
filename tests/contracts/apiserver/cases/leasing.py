"""Leases: the compare-and-swap that leadership stands on."""

import asyncio

from tests.contracts.apiserver.api import Api, Json
from tests.contracts.apiserver.kinds import lease
from tests.contracts.apiserver.suite import Area, case
from tgp.api.resource import LEASE

RIVALS = 8
THEN = "2001-02-03T04:05:06.123456Z"
LATER = "2001-02-03T04:05:21.654321Z"


@case(Area.LEASE)
async def a_lease_keeps_its_microseconds(api: Api) -> None:
    made = await api.create(LEASE, lease("one", acquireTime=THEN, renewTime=LATER, leaseTransitions=3))
    assert made.status == 201
    assert made["spec.acquireTime"] == THEN
    read = await api.get(LEASE, "one")
    assert read["spec"] == made["spec"]


@case(Area.LEASE)
async def a_time_of_another_zone_is_written_back_in_ours(api: Api) -> None:
    made = await api.create(LEASE, lease("one", renewTime="2001-02-03T06:05:06.123456+02:00"))
    assert made["spec.renewTime"] == THEN
    later = await api.patch(LEASE, "one", {"spec": {"renewTime": "2001-02-02T23:05:06.000001-05:00"}})
    assert later["spec.renewTime"] == "2001-02-03T04:05:06.000001Z"


@case(Area.LEASE)
async def a_time_has_six_digits_after_the_second_or_is_none(api: Api) -> None:
    """A renewal that writes whole seconds is refused, however well it is meant."""
    for time in (
        "2001-02-03T04:05:06Z",
        "2001-02-03T04:05:06.5Z",
        "2001-02-03T04:05:06.1234567Z",
        "2001-02-03 04:05:06.123456Z",
        "noon",
        5,
    ):
        assert (await api.create(LEASE, lease("one", renewTime=time))).status == 400, time


@case(Area.LEASE)
async def a_takeover_is_a_compare_and_swap(api: Api) -> None:
    held = await api.create(LEASE, lease("one", renewTime=THEN))
    renewed = await api.update(LEASE, {**held.body, "spec": {**held["spec"], "renewTime": LATER}})
    assert renewed.status == 200
    taken: Json = {**held.body, "spec": {**held["spec"], "holderIdentity": "two", "leaseTransitions": 1}}
    refused = await api.update(LEASE, taken)
    assert refused.status == 409
    assert (await api.get(LEASE, "one"))["spec.holderIdentity"] == "one"
    taken["metadata"] = renewed.meta
    assert (await api.update(LEASE, taken)).status == 200


@case(Area.LEASE)
async def of_rival_renewals_exactly_one_wins(api: Api) -> None:
    held = await api.create(LEASE, lease("one"))
    rivals = [{**held.body, "spec": {**held["spec"], "holderIdentity": f"rival-{n}"}} for n in range(RIVALS)]
    answers = await asyncio.gather(*(api.quiet.update(LEASE, rival) for rival in rivals))
    api.note("statuses", sorted(answer.status for answer in answers))
    assert sorted(answer.status for answer in answers) == [200] + [409] * (RIVALS - 1)
    winner = next(answer for answer in answers if answer.status == 200)
    assert (await api.quiet.get(LEASE, "one"))["spec"] == winner["spec"]


@case(Area.LEASE)
async def of_rival_creators_exactly_one_wins(api: Api) -> None:
    rivals = [lease("one", f"rival-{n}") for n in range(RIVALS)]
    answers = await asyncio.gather(*(api.quiet.create(LEASE, rival) for rival in rivals))
    api.note("statuses", sorted(answer.status for answer in answers))
    assert sorted(answer.status for answer in answers) == [201] + [409] * (RIVALS - 1)


@case(Area.LEASE)
async def an_update_without_a_version_is_answered_alike(api: Api) -> None:
    await api.create(LEASE, lease("one"))
    answer = await api.update(LEASE, lease("one", "two"))
    assert answer.status in {200, 422}


@case(Area.LEASE)
async def an_update_of_a_missing_lease_is_answered_alike(api: Api) -> None:
    await api.update(LEASE, lease("one"))
    await api.get(LEASE, "one")


@case(Area.LEASE)
async def a_stale_patch_is_refused_and_a_current_one_lands(api: Api) -> None:
    held = await api.create(LEASE, lease("one", renewTime=THEN))
    patch: Json = {"metadata": {"resourceVersion": held.rv}, "spec": {"renewTime": LATER}}
    assert (await api.patch(LEASE, "one", patch)).status == 200
    assert (await api.patch(LEASE, "one", {**patch, "spec": {"holderIdentity": "two"}})).status == 409


@case(Area.LEASE)
async def a_lease_is_released_by_taking_its_holder_off(api: Api) -> None:
    held = await api.create(LEASE, lease("one", renewTime=THEN))
    patch: Json = {"metadata": {"resourceVersion": held.rv}, "spec": {"holderIdentity": None, "renewTime": None}}
    released = await api.patch(LEASE, "one", patch)
    assert released["spec"] == {"leaseDurationSeconds": 15}


@case(Area.LEASE)
async def an_empty_holder_is_answered_alike(api: Api) -> None:
    await api.create(LEASE, lease("one", ""))


@case(Area.LEASE)
async def a_duration_must_be_positive(api: Api) -> None:
    for seconds in (0, -5):
        refused = await api.create(LEASE, lease("one", leaseDurationSeconds=seconds))
        assert refused.status == 422
        assert refused.causes[0]["field"] == "spec.leaseDurationSeconds"


@case(Area.LEASE)
async def transitions_are_not_negative(api: Api) -> None:
    refused = await api.create(LEASE, lease("one", leaseTransitions=-1))
    assert refused.status == 422
    assert refused.causes[0]["field"] == "spec.leaseTransitions"


@case(Area.LEASE)
async def a_number_must_be_a_number(api: Api) -> None:
    assert (await api.create(LEASE, lease("one", leaseDurationSeconds="15"))).status == 400
    assert (await api.create(LEASE, lease("one", leaseDurationSeconds=1.5))).status == 400


@case(Area.LEASE)
async def renewals_are_watched_and_versions_grow(api: Api) -> None:
    held = await api.create(LEASE, lease("one"))
    async with api.watch(LEASE, resourceVersion=held.rv, fieldSelector="metadata.name=one") as events:
        for second in range(3):
            await api.patch(LEASE, "one", {"spec": {"renewTime": f"2001-02-03T04:05:0{second}.000000Z"}})
        told = await events.take(3)
    assert [event.type for event in told] == ["MODIFIED"] * 3
    assert [event.rv for event in told] == sorted({event.rv for event in told})


@case(Area.LEASE)
async def a_lease_made_again_refuses_the_old_ones_holder(api: Api) -> None:
    old = await api.create(LEASE, lease("one"))
    await api.delete(LEASE, "one", {"preconditions": {"uid": old.uid, "resourceVersion": old.rv}})
    new = await api.create(LEASE, lease("one", "two"))
    assert new.uid != old.uid
    assert (await api.update(LEASE, old.body)).status == 409
    ghost: Json = {**old.body, "metadata": {**old.meta, "resourceVersion": new.rv}}
    assert (await api.update(LEASE, ghost)).status == 409


@case(Area.LEASE)
async def a_renewal_that_changes_nothing_keeps_the_version(api: Api) -> None:
    held = await api.create(LEASE, lease("one", renewTime=THEN))
    assert (await api.update(LEASE, held.body)).rv == held.rv
