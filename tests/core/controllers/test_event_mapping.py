"""Which requests a change wakes: all that a user wrote and that wait, and of a pool's only those it concerns."""

from msgspec.structs import replace

from tests.core.controllers.account_access import HandClock
from tests.core.controllers.accounts import MemoryConfigMap, accounts_on
from tests.core.requests.an_observation import ACCOUNT, NOW, a_machine
from tgp.adapters.kube.store import Store
from tgp.api.common import Condition, NodeClassRef
from tgp.api.nodeclass import ClassLimits, GPUNodeClass, GPUNodeClassSpec, GPUNodeClassStatus, ProviderConfig
from tgp.api.nodepool import GPUNodePool, GPUNodePoolSpec, NodeTemplate, PoolLimits, TemplateMetadata
from tgp.api.request import GPURequest, GPURequestSpec, GPURequestStatus
from tgp.api.resource import GPU_NODE_CLASS, GPU_REQUEST
from tgp.controllers.instances.cache import InstanceCache
from tgp.controllers.requests.event_mapping import RequestEventMapping
from tgp.controllers.requests.indexes import INDEXES
from tgp.core.market.sources import sources_of
from tgp.core.model.hold import HOLD
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import OwnerRef
from tgp.core.model.workload import Metadata

OWNER = OwnerRef(kind="GPUNodePool", name="team", uid="p-1", controller=True)
USER, WAITS, ELSEWHERE, RUNS = (ObjectKey("default", name) for name in ("user", "waits", "elsewhere", "runs"))


def a_class(name: str, provider: str = "vast") -> KubeObject[GPUNodeClass]:
    value = GPUNodeClass(spec=GPUNodeClassSpec(providers=(ProviderConfig(name=provider),)))
    return KubeObject(key=ObjectKey("", name), uid=name, resource_version=1, value=value)


def a_request(key: ObjectKey, node_class: str, *attempts, pool: bool = True) -> KubeObject[GPURequest]:
    return KubeObject(
        key=key,
        uid=key.name,
        resource_version=1,
        owners=(OWNER,) if pool else (),
        value=GPURequest(
            spec=GPURequestSpec(gpu_type="RTX4090", node_class_ref=NodeClassRef(name=node_class)),
            status=GPURequestStatus(attempts=attempts),
        ),
    )


def a_pool(**rest) -> KubeObject[GPUNodePool]:
    limits = PoolLimits(resources={"nodes": rest.pop("nodes", 1)})
    template = rest.pop("template", NodeTemplate())
    spec = GPUNodePoolSpec(node_class_ref=NodeClassRef(name="rented"), template=template, limits=limits)
    fields = {"uid": "p-1", "value": GPUNodePool(spec=spec), **rest}
    return KubeObject(key=ObjectKey("default", "team"), resource_version=1, **fields)


RENTED, OTHER = a_class("rented"), a_class("other", "lambda")


def a_mapping() -> RequestEventMapping:
    requests, classes = Store(GPU_REQUEST, INDEXES), Store(GPU_NODE_CLASS)
    for record in (
        a_request(USER, "rented", pool=False),
        a_request(WAITS, "rented"),
        a_request(ELSEWHERE, "other"),
        a_request(RUNS, "rented", a_machine()),
    ):
        requests.put(record)
    for record in (RENTED, OTHER):
        classes.put(record)
    accounts = accounts_on(MemoryConfigMap(ACCOUNT), requests, HandClock())
    return RequestEventMapping(requests, classes, InstanceCache(lambda: 0.0), accounts)


def test_the_status_of_a_class_wakes_no_waiting_request_of_a_pool():
    value = RENTED.value
    assert value is not None
    counted = replace(RENTED, value=replace(value, status=GPUNodeClassStatus(active_nodes=3)))
    ready = Condition(type="Ready", status="True", reason="Valid", message="", last_transition_time=NOW)
    judged = replace(RENTED, value=replace(value, status=GPUNodeClassStatus(conditions=(ready,))))
    limited = replace(RENTED, value=replace(value, spec=replace(value.spec, limits=ClassLimits(max_nodes=1))))

    assert a_mapping().of_class(RENTED, counted) == [USER]
    for meant in (judged, limited):
        assert sorted(a_mapping().of_class(RENTED, meant)) == sorted([USER, WAITS, RUNS])


def test_offers_wake_the_waiting_requests_of_pools_whose_class_buys_there():
    (source,) = sources_of(RENTED.value).values()
    news = Metadata(key=ObjectKey("", source.name))

    assert sorted(a_mapping().of_source(None, news)) == sorted([USER, WAITS])
    assert list(a_mapping().of_access(None, news)) == [USER]
    assert list(a_mapping().waiting_requests(None, None)) == [USER]


def test_a_pause_of_purchases_and_its_end_wake_all_requests_that_wait():
    free = Metadata(key=ObjectKey("", "tgp-system"))
    held = replace(free, annotations={HOLD: "maintenance"})

    assert sorted(a_mapping().of_namespace(held, free)) == sorted([USER, WAITS, ELSEWHERE])
    assert sorted(a_mapping().of_namespace(free, held)) == sorted([USER, WAITS, ELSEWHERE])
    assert list(a_mapping().of_namespace(free, replace(free, labels={"a": "b"}))) == [USER]


def test_a_pool_wakes_its_requests_when_it_comes_or_goes_and_those_that_wait_when_its_limits_change():
    mapping = a_mapping()

    assert sorted(mapping.of_pool(a_pool(), None)) == sorted([WAITS, ELSEWHERE, RUNS])
    assert sorted(mapping.of_pool(a_pool(), a_pool(deletion_requested_at=NOW))) == sorted([WAITS, ELSEWHERE, RUNS])
    assert sorted(mapping.of_pool(a_pool(), a_pool(nodes=2))) == sorted([WAITS, ELSEWHERE])
    assert list(mapping.of_pool(a_pool(), a_pool(generation=9))) == []
    labelled = NodeTemplate(metadata=TemplateMetadata(labels={"team": "a"}))
    assert sorted(mapping.of_pool(a_pool(), a_pool(template=labelled))) == sorted([WAITS, ELSEWHERE, RUNS])


def test_what_may_order_or_terminate_goes_first_in_a_long_line():
    """A machine on its way, or one that runs, can wait a moment: neither costs more for it."""
    mapping = a_mapping()
    gone = ObjectKey("default", "gone")

    assert [mapping.goes_first(key) for key in (USER, WAITS, gone, RUNS)] == [True, True, True, False]
