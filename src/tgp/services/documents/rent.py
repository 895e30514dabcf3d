"""The document about one machine that would be rented, or was."""

from typing import Any, Literal, TypedDict

from tgp.api.values import rfc3339
from tgp.core.model.gpus import resource_name
from tgp.core.model.taints import Taint
from tgp.core.model.text import plain
from tgp.core.requests.device_plugin import REQUEST
from tgp.core.requests.purchase import Purchase
from tgp.services.documents import API_VERSION, ApiVersion, usd
from tgp.services.documents.plans import PriceSourceItem
from tgp.services.market_answers import STOCK
from tgp.services.request_advice import foreign_provider
from tgp.services.request_answers import RentPlan


class RentOfferItem(TypedDict):
    provider: str
    instanceType: str
    region: str
    place: str
    gpu: str
    gpuCount: int
    kind: str
    bidUsdPerHour: float | None
    bootMode: str
    availability: str | None


class RentPlanDocument(TypedDict):
    apiVersion: ApiVersion
    kind: Literal["RentPlan"]
    namespace: str
    name: str
    created: bool
    fits: bool
    reason: str | None
    message: str | None
    offer: RentOfferItem | None
    usdPerHour: float | None
    usdForItsLife: float | None
    usdAtMost: float | None
    nodeClass: str | None
    stoppedBy: str | None
    prices: list[PriceSourceItem]
    exclusive: bool
    job: dict[str, Any]
    notes: list[str]


LONGEST_JOB = 63  # its pods carry its name as a label
PROOFS = {  # image and command that list the GPUs, by resource name
    "nvidia.com/gpu": ("nvidia/cuda:12.8.1-base-ubuntu24.04", "nvidia-smi"),
    "amd.com/gpu": ("rocm/rocm-terminal:6.4.1", "rocm-smi"),
}


def why_nothing(plan: RentPlan) -> str:
    """If the class does not have the provider at all, that says more than the nearest offers."""
    assert not isinstance(plan.choice, Purchase), "an offer fits"
    foreign = foreign_provider(plan.request.spec, plan.node_class) if plan.node_class is not None else ""
    return foreign or plan.choice.message


def rent_plan(plan: RentPlan, *, created: bool) -> RentPlanDocument:
    """For programs; fields are added, never renamed."""
    choice = plan.choice
    meta = plan.request.metadata
    return RentPlanDocument(
        apiVersion=API_VERSION,
        kind="RentPlan",
        namespace=meta.namespace,
        name=meta.name,
        created=created,
        fits=plan.fits,
        reason=None if isinstance(choice, Purchase) else choice.reason,
        message=None if isinstance(choice, Purchase) else plain(why_nothing(plan)),
        offer=_rent_offer_item(choice, asked_now=plan.asked_now) if isinstance(choice, Purchase) else None,
        usdPerHour=usd(plan.hourly_microusd),
        usdForItsLife=usd(plan.expected_microusd),
        usdAtMost=usd(plan.most_microusd),
        nodeClass=plan.class_name or None,
        stoppedBy=plan.stopped or None,
        prices=[
            {
                "provider": each.provider,
                "live": each.live,
                "seenAt": rfc3339(each.seen_at) if each.seen_at is not None else None,
                "message": plain(each.why),
            }
            for each in plan.price_sources
        ],
        exclusive=plan.request.spec.exclusive,
        job=job_for(plan),
        notes=[plain(note) for note in plan.notes],
    )


def job_for(plan: RentPlan) -> dict[str, Any]:
    """A small Job that runs only on this machine, ready to copy."""
    request = plan.request
    offer = plan.choice.offer if isinstance(plan.choice, Purchase) else None
    resource = resource_name(offer.gpu if offer is not None else request.spec.gpu_type or "")
    image, command = PROOFS[resource]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"on-{request.metadata.name}"[:LONGEST_JOB].rstrip("-."),
            "namespace": request.metadata.namespace,
        },
        "spec": {
            "backoffLimit": 3,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "nodeSelector": {REQUEST: request.metadata.name},
                    "tolerations": [_toleration(taint) for taint in plan.taints],
                    "containers": [
                        {"name": "gpu", "image": image, "command": [command], "resources": {"limits": {resource: 1}}}
                    ],
                }
            },
        },
    }


def _toleration(taint: Taint) -> dict[str, str]:
    said = {"operator": "Equal", "value": taint.value} if taint.value else {"operator": "Exists"}
    return {"key": taint.key, **said, "effect": taint.effect}


def _rent_offer_item(buy: Purchase, *, asked_now: bool) -> RentOfferItem:
    offer = buy.offer
    return {
        "provider": offer.provider,
        "instanceType": offer.instance_type,
        "region": offer.region,
        "place": offer.place,
        "gpu": offer.gpu,
        "gpuCount": offer.gpu_count,
        "kind": "spot" if offer.spot else "on-demand",
        "bidUsdPerHour": usd(buy.bid_microusd),
        "bootMode": str(offer.boot),
        "availability": STOCK[offer.stock] if asked_now else None,
    }
