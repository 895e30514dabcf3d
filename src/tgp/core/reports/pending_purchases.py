"""Which requests and pools would buy once nothing stops them, and which buy again after all requests are deleted."""

from collections.abc import Iterator
from dataclasses import dataclass

from tgp.api.request import GPURequest
from tgp.core.model.attempts import attempts_of, copied, open_attempt
from tgp.core.model.cluster_inventory import ClusterInventory
from tgp.core.model.costs import class_of
from tgp.core.model.gitops import gitops_tool_of
from tgp.core.model.kube_object import KubeObject
from tgp.core.reports.machine_costs import ENDED, lives, waits
from tgp.core.requests.purchase_stops import NEEDS_USER, PAUSED


@dataclass(frozen=True, slots=True)
class PendingPurchase:
    about: str  # request/team/train, pool/team/ml
    why: str
    at_once: bool  # as soon as it may, rather than after an event
    keeper: str = ""  # the GitOps tool that creates it again when it is deleted; empty: none is known
    node_class: str = ""  # empty: the default one


def pending_purchases(inventory: ClusterInventory) -> tuple[PendingPurchase, ...]:
    """Requests and pools that would buy if nothing stopped them: those that would buy at once come first."""
    return tuple(
        sorted((*_requests(inventory), *_pools(inventory)), key=lambda purchase: (not purchase.at_once, purchase.about))
    )


def bought_after_release(inventory: ClusterInventory) -> tuple[PendingPurchase, ...]:
    """What buys once purchases are not paused: nothing of a suspended class."""
    return unsuspended(inventory, pending_purchases(inventory))


def written_again(inventory: ClusterInventory) -> tuple[PendingPurchase, ...]:
    """What buys again although all requests are deleted: requests that a GitOps tool creates again, and pools."""
    kept = [
        PendingPurchase(f"request/{record.key}", f"is managed by {keeper}", at_once=True, keeper=keeper)
        for record in inventory.requests
        if lives(record) and (keeper := gitops_tool_of(record.labels, record.annotations))
    ]
    kept += unsuspended(inventory, tuple(_pools(inventory)))
    return tuple(sorted(kept, key=lambda purchase: purchase.about))


def unsuspended(
    inventory: ClusterInventory, found: tuple[PendingPurchase, ...], but: str = ""
) -> tuple[PendingPurchase, ...]:
    """Those whose class does not stop them; `but` counts as released."""
    stopped = {
        record.key.name
        for record in inventory.classes
        if record.value is not None and record.value.spec.suspend and record.key.name != but
    }
    return tuple(purchase for purchase in found if purchase.node_class not in stopped)


def _requests(inventory: ClusterInventory) -> Iterator[PendingPurchase]:
    for record in inventory.requests:
        if record.value is None:
            continue
        why = _why(record)
        if why:
            yield PendingPurchase(
                f"request/{record.key}",
                why,
                waits(record) and _reason(record) not in NEEDS_USER,
                gitops_tool_of(record.labels, record.annotations),
                class_of(record),
            )


def _pools(inventory: ClusterInventory) -> Iterator[PendingPurchase]:
    """Pods are not looked at here: each pool that is Active may have some that wait."""
    if inventory.pools is None:
        yield PendingPurchase("pools", "you may not list GPUNodePools, so whether one buys is unknown", at_once=True)
        return
    for record in inventory.pools:
        if record.deleting or (record.value is not None and record.value.spec.mode == "Observe"):
            continue
        if record.value is None:
            why, node_class = "was written by a newer version, and may buy", ""
        else:
            node_class, replicas = record.value.spec.node_class_ref.name, record.value.spec.replicas
            why = "buys a machine when a pod waits for a GPU"
            why += f", and keeps {replicas} machines (spec.replicas)" if replicas else ""
        keeper = gitops_tool_of(record.labels, record.annotations)
        yield PendingPurchase(f"pool/{record.key}", why, at_once=True, keeper=keeper, node_class=node_class)


def _why(record: KubeObject[GPURequest]) -> str:
    assert record.value is not None, "only readable requests are judged"
    if waits(record):
        reason = _reason(record)
        return "waits for a machine" + (f" ({reason})" if reason not in {"", *PAUSED} else "")
    if record.deleting or copied(record) or record.value.status.phase in ENDED:
        return ""
    onward = record.value.spec.restart_policy == "OnLoss" and open_attempt(attempts_of(record)) is not None
    return "launches another machine when its machine is lost (restartPolicy OnLoss)" if onward else ""


def _reason(record: KubeObject[GPURequest]) -> str:
    """Why it waits; empty: no condition says so yet."""
    assert record.value is not None, "only readable requests are judged"
    conditions = record.value.status.conditions
    return next((each.reason for each in conditions if each.type == "Launched" and each.status != "True"), "")
