"""Builders for what a turn about a request sees. Each states only what matters to its test."""

from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from tests.core.market.offers import AListing, an_offer
from tgp.api.common import Condition
from tgp.api.nodeclass import ClassLimits, GPUNodeClass, GPUNodeClassSpec, ProviderConfig
from tgp.api.request import Attempt, ChosenOffer, GPURequest, GPURequestSpec, GPURequestStatus
from tgp.core.model.account_access import AccountAccess
from tgp.core.model.attempts import FINALIZER, LAUNCHED
from tgp.core.model.cloud_account import account_of
from tgp.core.model.instance import Instance, InstanceState
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import Offer
from tgp.core.model.presence import Absent, AccountProblem, Found, Unknown
from tgp.core.model.price_book import PriceBook
from tgp.core.model.record import pack_uid
from tgp.core.model.token import token_for
from tgp.core.requests.observation import MachinesInUse, NodeObservation, RequestObservation
from tgp.core.requests.purchase import Purchase, PurchaseInput, SourceObservation, decide_purchase, every_source

NOW = datetime(2026, 11, 16, 12, 0, 0, tzinfo=UTC)
UID = "11111111-2222-3333-4444-555555555555"
CLUSTER = "abcdef0123"
LAG = timedelta(seconds=60)
WINDOW = timedelta(seconds=120)
ACCOUNT = account_of(AccountAccess("vast"), "a-1")
OFFER = ChosenOffer(
    provider="vast",
    instance_type="rtx4090",
    region="us-west",
    gpu_type="RTX4090",
    gpu_count=1,
    boot_mode="native",
    hourly_price="0.40",
)
GONE = Absent(2, LAG)
NEVER_MADE = Absent(3, WINDOW)
NOT_SHOWN = Absent(1, timedelta(0))
SILENT = Unknown(AccountProblem.UNREACHABLE, "vast answered 503")


def ago(**length: float) -> datetime:
    return NOW - timedelta(**length)


def an_attempt(number: int = 1, **rest: Any) -> Attempt:
    fields = {"offer": OFFER, "reserved_at": ago(minutes=5), "account": ACCOUNT.id, **rest}
    return Attempt(number=number, token=token_for(CLUSTER, UID, number), **fields)


def a_machine(number: int = 1, **rest: Any) -> Attempt:
    fields = {"outcome": LAUNCHED, "launched_at": ago(minutes=4), "instance_id": "i-1", **rest}
    return an_attempt(number, **fields)


def over(number: int = 1, outcome: str = "Failed", **rest: Any) -> Attempt:
    return an_attempt(number, **{"outcome": outcome, "ended_at": ago(hours=1), **rest})


def a_condition(name: str, reason: str = "Said", status: str = "True", since: datetime = NOW) -> Condition:
    return Condition(type=name, status=status, reason=reason, message="as it was said", last_transition_time=since)


def an_observation(
    *attempts: Attempt,
    conditions: tuple[Condition, ...] = (),
    spec: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    deleting: bool = False,
    finalizers: tuple[str, ...] = (FINALIZER,),
    annotations: dict[str, str] | None = None,
    **rest: Any,
) -> RequestObservation:
    record = KubeObject(
        key=ObjectKey("default", "train"),
        uid=pack_uid(UID),
        resource_version=7,
        deletion_requested_at=NOW if deleting else None,
        finalizers=finalizers,
        annotations={"tgp.io/uid": UID} if annotations is None else annotations,
        value=GPURequest(
            spec=GPURequestSpec(**{"gpu_type": "RTX4090", **(spec or {})}),
            status=GPURequestStatus(
                **{"attempts": attempts, "conditions": conditions, "node_name": "train-1", **(status or {})}
            ),
        ),
    )
    fields = {"listing_lag": LAG, "settle_window": WINDOW, **rest}
    return RequestObservation(record, attempts, NOW, **fields)


def listed(state: InstanceState = InstanceState.RUNNING, **rest: Any) -> Found:
    return Found(Instance("i-1", token_for(CLUSTER, UID, 1), state, **rest))


def a_node(**rest: Any) -> NodeObservation:
    """Up, with all its GPUs, and used."""
    node = Node(key=ObjectKey("", "train-1"), uid="n-1", resource_version=3, ready=rest.pop("ready", True))
    if "ready_since" in rest:
        node = replace(node, ready_since=rest.pop("ready_since"))
    return replace(
        NodeObservation(node=node, initialized=True, words="1 of 1 nvidia.com/gpu allocatable", idle=False), **rest
    )


def a_class(max_hourly_cost: str | None = None, **limited: Any) -> GPUNodeClass:
    limits = ClassLimits(max_hourly_cost=max_hourly_cost, **limited)
    return GPUNodeClass(spec=GPUNodeClassSpec(providers=(ProviderConfig(name="vast"),), limits=limits))


def _on_sale(*offers: Offer) -> PurchaseInput:
    node_class = a_class()
    (source,) = every_source(node_class)
    book = PriceBook().with_listing(source, AListing(offers), NOW)
    return PurchaseInput(an_observation().record, "rented", node_class, book, {source: SourceObservation()}, NOW)


ON_SALE, SOLD_OUT = _on_sale(an_offer(provider="vast", gpu="RTX4090")), _on_sale()
AN_OUTAGE = MachinesInUse(
    5, tuple((an_observation().record, None) for _ in range(5))
)  # five Nodes are missing, all at once
BUY = decide_purchase(ON_SALE)
assert isinstance(BUY, Purchase), BUY
