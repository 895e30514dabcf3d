"""The Eviction API against PodDisruptionBudgets.

No disruption controller runs beside either server, so each case writes the budget's status itself, as that controller
would.
"""

from typing import Any

from tests.contracts.apiserver.api import Answer, Api, Json
from tests.contracts.apiserver.kinds import disruption_budget, pod
from tests.contracts.apiserver.suite import Area, case
from tgp.api.resource import POD, POD_DISRUPTION_BUDGET

APP = {"app": "one"}


async def _running(api: Api, name: str, *, ready: bool = True, phase: str = "Running") -> Answer:
    """A pod on a node, as its kubelet would report it."""
    quiet = api.quiet
    await quiet.create(POD, pod(name, {"nodeName": "n1"}, labels=APP))
    condition: Json = {"type": "Ready", "status": "True" if ready else "False"}
    answer = await quiet.patch(POD, name, {"status": {"phase": phase, "conditions": [condition]}}, "status")
    assert answer.status == 200, answer.body
    return answer


async def _budget(api: Api, allowed: int, name: str = "budget", **spec: Any) -> None:
    """A budget whose controller has just looked."""
    quiet = api.quiet
    made = await quiet.create(POD_DISRUPTION_BUDGET, disruption_budget(name, APP, **spec))
    assert made.status == 201, made.body
    status: Json = {
        "observedGeneration": made.meta["generation"],
        "disruptionsAllowed": allowed,
        "currentHealthy": 1 + allowed,
        "desiredHealthy": 1,
        "expectedPods": 2,
    }
    answer = await quiet.patch(POD_DISRUPTION_BUDGET, name, {"status": status}, "status")
    assert answer.status == 200, answer.body


async def _evict(api: Api, name: str, options: Json | None = None, **query: Any) -> Answer:
    body: Json = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    if options is not None:
        body["deleteOptions"] = options
    return await api.call("POST", api.path(POD, name, "eviction"), body, **query)


async def _leaving(api: Api, name: str) -> bool:
    found = await api.quiet.get(POD, name)
    gone = found.status == 404 or "deletionTimestamp" in found.meta
    api.note(f"{name} afterwards", [found.status, found.meta.get("deletionGracePeriodSeconds")])
    return gone


async def _spent(api: Api) -> Json:
    status: Json = (await api.quiet.get(POD_DISRUPTION_BUDGET, "budget"))["status"]
    api.note("the budget afterwards", status)
    return status


@case(Area.EVICTION)
async def a_pod_without_a_budget_is_evicted(api: Api) -> None:
    await _running(api, "p")
    assert (await _evict(api, "p")).status == 201
    assert await _leaving(api, "p")


@case(Area.EVICTION)
async def a_budget_with_room_is_spent(api: Api) -> None:
    await _running(api, "p")
    await _budget(api, 1)
    assert (await _evict(api, "p")).status == 201
    assert await _leaving(api, "p")
    status = await _spent(api)
    assert status["disruptionsAllowed"] == 0
    assert list(status["disruptedPods"]) == ["p"]


@case(Area.EVICTION)
async def a_budget_without_room_refuses(api: Api) -> None:
    await _running(api, "p")
    await _budget(api, 0)
    refused = await _evict(api, "p")
    assert refused.status == 429
    assert refused.reason == "TooManyRequests"
    assert refused.causes[0]["reason"] == "DisruptionBudget"
    assert not await _leaving(api, "p")


@case(Area.EVICTION)
async def a_budget_is_spent_once_per_unit(api: Api) -> None:
    for name in ("p", "q"):
        await _running(api, name)
    await _budget(api, 1)
    assert (await _evict(api, "p")).status == 201
    assert (await _evict(api, "q")).status == 429
    await _spent(api)


@case(Area.EVICTION)
async def two_budgets_over_one_pod_are_an_error(api: Api) -> None:
    await _running(api, "p")
    await _budget(api, 1)
    await _budget(api, 1, "second")
    refused = await _evict(api, "p")
    assert refused.status == 500
    assert not await _leaving(api, "p")


@case(Area.EVICTION)
async def a_budget_over_other_pods_does_not_matter(api: Api) -> None:
    await _running(api, "p")
    made = disruption_budget("budget", {"app": "other"})
    await api.quiet.create(POD_DISRUPTION_BUDGET, made)
    assert (await _evict(api, "p")).status == 201


@case(Area.EVICTION)
async def a_budget_whose_controller_has_not_looked_says_wait(api: Api) -> None:
    await _running(api, "p")
    await api.quiet.create(POD_DISRUPTION_BUDGET, disruption_budget("budget", APP))
    refused = await _evict(api, "p")
    assert refused.status == 429
    assert not await _leaving(api, "p")


@case(Area.EVICTION)
async def a_dry_eviction_keeps_pod_and_budget(api: Api) -> None:
    await _running(api, "p")
    await _budget(api, 1)
    assert (await _evict(api, "p", {"dryRun": ["All"]})).status == 201
    assert (await _evict(api, "p", dryRun="All")).status == 201
    assert not await _leaving(api, "p")
    assert (await _spent(api))["disruptionsAllowed"] == 1


@case(Area.EVICTION)
async def a_dry_eviction_is_refused_like_a_real_one(api: Api) -> None:
    await _running(api, "p")
    await _budget(api, 0)
    assert (await _evict(api, "p", {"dryRun": ["All"]})).status == 429


@case(Area.EVICTION)
async def an_eviction_of_another_uid_is_refused(api: Api) -> None:
    running = await _running(api, "p")
    other = await _running(api, "q")
    refused = await _evict(api, "p", {"preconditions": {"uid": other.uid}})
    assert refused.status == 409
    assert not await _leaving(api, "p")
    assert (await _evict(api, "p", {"preconditions": {"uid": running.uid}})).status == 201


@case(Area.EVICTION)
async def a_missing_pod_cannot_be_evicted(api: Api) -> None:
    assert (await _evict(api, "absent")).status == 404


@case(Area.EVICTION)
async def an_eviction_must_name_its_pod(api: Api) -> None:
    await _running(api, "p")
    body: Json = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "other"}}
    assert (await api.call("POST", api.path(POD, "p", "eviction"), body)).status == 400
    assert not await _leaving(api, "p")


@case(Area.EVICTION)
async def a_finished_pod_is_evicted_past_its_budget(api: Api) -> None:
    for name, phase in (("p", "Succeeded"), ("q", "Failed")):
        await _running(api, name, phase=phase)
    await _budget(api, 0)
    for name in ("p", "q"):
        assert (await _evict(api, name)).status == 201
        assert await _leaving(api, name)
    assert (await _spent(api))["disruptionsAllowed"] == 0


@case(Area.EVICTION)
async def a_pending_pod_is_evicted_past_its_budget(api: Api) -> None:
    await api.quiet.create(POD, pod("p", labels=APP))
    await _budget(api, 0)
    assert (await _evict(api, "p")).status == 201
    assert (await api.get(POD, "p")).status == 404


@case(Area.EVICTION)
async def a_leaving_pod_is_evicted_past_its_budget(api: Api) -> None:
    await _running(api, "p")
    await api.quiet.delete(POD, "p")
    await _budget(api, 0)
    assert (await _evict(api, "p")).status == 201


@case(Area.EVICTION)
async def an_eviction_may_shorten_the_grace(api: Api) -> None:
    await _running(api, "p")
    assert (await _evict(api, "p", {"gracePeriodSeconds": 7})).status == 201
    found = await api.quiet.get(POD, "p")
    api.note("grace", found.meta["deletionGracePeriodSeconds"])
    assert found.meta["deletionGracePeriodSeconds"] == 7


@case(Area.EVICTION)
async def an_unready_pod_goes_when_the_policy_always_allows_it(api: Api) -> None:
    await _running(api, "p", ready=False)
    await _budget(api, 0, unhealthyPodEvictionPolicy="AlwaysAllow")
    assert (await _evict(api, "p")).status == 201
    assert (await _spent(api))["disruptionsAllowed"] == 0


@case(Area.EVICTION)
async def an_unready_pod_goes_while_the_others_suffice(api: Api) -> None:
    """The default policy: what is broken anyway may go, if enough are healthy without it."""
    await _running(api, "p", ready=False)
    await _budget(api, 0)
    assert (await _evict(api, "p")).status == 201


@case(Area.EVICTION)
async def an_unready_pod_stays_while_the_others_do_not_suffice(api: Api) -> None:
    await _running(api, "p", ready=False)
    await _budget(api, 0)
    await api.quiet.patch(POD_DISRUPTION_BUDGET, "budget", {"status": {"currentHealthy": 0}}, "status")
    assert (await _evict(api, "p")).status == 429


@case(Area.EVICTION)
async def a_pod_that_was_just_evicted_is_not_counted_twice(api: Api) -> None:
    await _running(api, "p")
    await _budget(api, 2)
    assert (await _evict(api, "p")).status == 201
    assert (await _evict(api, "p")).status == 201
    assert (await _spent(api))["disruptionsAllowed"] == 1
