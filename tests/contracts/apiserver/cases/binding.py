"""The scheduler's verb: a pod is given to a node once."""

from tests.contracts.apiserver.api import Answer, Api, Json
from tests.contracts.apiserver.kinds import pod
from tests.contracts.apiserver.suite import Area, case
from tgp.api.resource import POD


async def _bind(api: Api, name: str, node: str, **metadata: str) -> Answer:
    body: Json = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    return await api.call("POST", api.path(POD, name, "binding"), body)


@case(Area.BINDING)
async def a_binding_puts_the_pod_on_the_node_and_says_so(api: Api) -> None:
    made = await api.quiet.create(POD, pod("p"))
    async with api.watch(POD, resourceVersion=made.rv) as events:
        assert (await _bind(api, "p", "n1")).status == 201
        (event,) = await events.take(1)
    assert event.object["spec"]["nodeName"] == "n1"
    bound = await api.quiet.get(POD, "p")
    conditions = {one["type"]: one["status"] for one in bound["status.conditions"]}
    api.note("bound", [bound["spec.nodeName"], conditions])
    assert conditions == {"PodScheduled": "True"}


@case(Area.BINDING)
async def a_bound_pod_is_not_bound_again(api: Api) -> None:
    await api.quiet.create(POD, pod("p"))
    await _bind(api, "p", "n1")
    assert (await _bind(api, "p", "n2")).status == 409
    assert (await _bind(api, "p", "n1")).status == 409


@case(Area.BINDING)
async def a_missing_pod_cannot_be_bound(api: Api) -> None:
    assert (await _bind(api, "absent", "n1")).status == 404


@case(Area.BINDING)
async def a_binding_needs_a_node(api: Api) -> None:
    await api.quiet.create(POD, pod("p"))
    assert (await _bind(api, "p", "")).status >= 400
    assert (await api.quiet.get(POD, "p"))["spec.nodeName"] is None


@case(Area.BINDING)
async def a_binding_for_another_uid_is_refused(api: Api) -> None:
    other = await api.quiet.create(POD, pod("q"))
    await api.quiet.create(POD, pod("p"))
    assert (await _bind(api, "p", "n1", uid=other.uid)).status == 409


@case(Area.BINDING)
async def a_pod_that_is_going_is_not_bound(api: Api) -> None:
    await api.quiet.create(POD, pod("p", finalizers=["contract.tgp.io/hold"]))
    await api.quiet.delete(POD, "p")
    assert (await _bind(api, "p", "n1")).status == 409


@case(Area.BINDING)
async def a_gated_pod_is_not_bound(api: Api) -> None:
    await api.quiet.create(POD, pod("p", {"schedulingGates": [{"name": "contract.tgp.io/wait"}]}))
    assert (await _bind(api, "p", "n1")).status == 409
    opened = await api.quiet.patch(POD, "p", {"spec": {"schedulingGates": None}})
    assert opened.status == 200
    assert (await _bind(api, "p", "n1")).status == 201
