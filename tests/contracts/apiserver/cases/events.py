"""Events: one thing behind two APIs."""

from typing import Any

from tests.contracts.apiserver.api import Api, Json
from tests.contracts.apiserver.kinds import CORE_EVENT
from tests.contracts.apiserver.suite import Area, case
from tgp.api.resource import EVENT

THEN = "2001-02-03T04:05:06.123456Z"


def _new(api: Api, name: str, **changes: Any) -> Json:
    regarding = {"apiVersion": "v1", "kind": "ConfigMap", "name": "one", "namespace": api.namespace}
    return {
        "metadata": {"name": name},
        "eventTime": THEN,
        "reportingController": "contract.tgp.io/suite",
        "reportingInstance": "suite-0",
        "action": "Looking",
        "reason": "Seen",
        "note": "it was there",
        "type": "Normal",
        "regarding": regarding,
        **changes,
    }


@case(Area.EVENT)
async def an_event_of_the_new_api_is_read_through_the_old_one(api: Api) -> None:
    made = await api.create(EVENT, _new(api, "one"))
    assert made.status == 201
    old = await api.get(CORE_EVENT, "one")
    assert old["involvedObject.name"] == "one"
    assert old["message"] == "it was there"
    assert old.uid == made.uid


@case(Area.EVENT)
async def an_event_of_the_old_api_is_read_through_the_new_one(api: Api) -> None:
    involved = {"apiVersion": "v1", "kind": "ConfigMap", "name": "one", "namespace": api.namespace}
    body: Json = {
        "metadata": {"name": "one"},
        "involvedObject": involved,
        "reason": "Seen",
        "message": "it was there",
        "type": "Warning",
        "source": {"component": "suite"},
        "firstTimestamp": "2001-02-03T04:05:06Z",
        "lastTimestamp": "2001-02-03T04:05:07Z",
        "count": 2,
    }
    assert (await api.create(CORE_EVENT, body)).status == 201
    new = await api.get(EVENT, "one")
    assert new["note"] == "it was there"
    assert new["deprecatedCount"] == 2


@case(Area.EVENT)
async def an_incomplete_event_is_refused(api: Api) -> None:
    for name, absent in enumerate(("eventTime", "reportingController", "reportingInstance", "action", "reason")):
        body = _new(api, f"e{name}")
        del body[absent]
        assert (await api.create(EVENT, body)).status == 422, absent
    assert (await api.create(EVENT, _new(api, "type", type="Strange"))).status == 422
    assert (await api.create(EVENT, _new(api, "long", note="x" * 1025))).status == 422


@case(Area.EVENT)
async def an_event_lives_in_the_namespace_of_what_it_is_about(api: Api) -> None:
    elsewhere = {"apiVersion": "v1", "kind": "ConfigMap", "name": "one", "namespace": "kube-system"}
    body: Json = {"involvedObject": elsewhere, "reason": "Seen", "message": "there", "type": "Normal"}
    assert (await api.create(CORE_EVENT, {**body, "metadata": {"name": "one"}})).status == 422
    body["involvedObject"] = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
    assert (await api.create(CORE_EVENT, {**body, "metadata": {"name": "two"}})).status == 422


@case(Area.EVENT)
async def an_event_grows_into_a_series(api: Api) -> None:
    await api.create(EVENT, _new(api, "one"))
    series: Json = {"series": {"count": 2, "lastObservedTime": "2001-02-03T04:06:06.123456Z"}}
    grown = await api.patch(EVENT, "one", series)
    assert grown["series.count"] == 2
    assert (await api.patch(EVENT, "one", {"reason": "Else"})).status == 422


@case(Area.EVENT)
async def events_are_found_by_what_they_are_about(api: Api) -> None:
    await api.quiet.create(EVENT, _new(api, "one"))
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "two", "namespace": api.namespace}
    await api.quiet.create(EVENT, _new(api, "two", regarding=other, type="Warning"))
    assert (await api.list(CORE_EVENT, fieldSelector="involvedObject.name=two")).names == ["two"]
    assert (await api.list(CORE_EVENT, fieldSelector="type=Normal,involvedObject.kind=ConfigMap")).names == ["one"]
    assert (await api.list(EVENT, fieldSelector="regarding.name=two")).names == ["two"]
    assert (await api.list(CORE_EVENT, fieldSelector="reason=Seen")).names == ["one", "two"]
