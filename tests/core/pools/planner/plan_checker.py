"""Is a plan right? Judged from the pods and offers themselves, by none of the planner's own code."""

from collections.abc import Iterable, Mapping, Sequence

from tests.core.pools.planner.worlds import GIB, GPU, HOSTNAME
from tgp.core.model.offer import BootMode, Offer, Stock, Trust
from tgp.core.model.offer_labels import label_value, offer_labels
from tgp.core.model.placement import PodTerm, SpreadConstraint
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.model.resources import Resources
from tgp.core.model.taints import Taint, untolerated
from tgp.core.model.workload import DaemonSet
from tgp.core.pools.planner.world import Capacity, Order, Plan, PlanInput, PlannedPool

SYSTEM_MILLI, KERNEL_SHARE = 200, 0.075  # what docs/planner.md says that pods do not get of a new machine


def broken_rules(world: PlanInput, answer: Plan) -> list[str]:
    """What is wrong with the plan; empty: nothing."""
    wrong = []
    named = [uid_text(pod.uid) for order in answer.orders for pod in order.pods]
    named += [*answer.placed, *(uid_text(each.pod.uid) for each in answer.unserved)]
    if sorted(named) != sorted(uid_text(pod.uid) for pod in world.pods):
        wrong.append("a pod is missing or twice")
    wrong += [f"unserved without a reason: {each.pod.key}" for each in answer.unserved if not each.message]
    for order in answer.orders:
        wrong += _wrong_order(world, order)
    wrong += _wrong_totals(world, answer)
    by_uid = {uid_text(pod.uid): pod for pod in world.pods}
    for place in world.capacity:
        there = [by_uid[uid] for uid, name in answer.placed.items() if name == place.name]
        wrong += wrong_machine(there, free_on(world, place), place.labels, place.taints, place.pods)
    served = {uid for uid in named if uid not in {uid_text(each.pod.uid) for each in answer.unserved}}
    for gang in {_gang(pod) for pod in world.pods} - {""}:
        members = [pod for pod in world.pods if _gang(pod) == gang]
        if 0 < sum(uid_text(pod.uid) in served for pod in members) < len(members):
            wrong.append(f"gang {gang} is served in part")
    return wrong


def _gang(pod: Pod) -> str:
    name = pod.annotations.get("tgp.io/gang", "")
    return f"{pod.key.namespace}/{name}" if name else ""


def machine_of(
    world: PlanInput, pool: PlannedPool, offer: Offer
) -> tuple[Resources, dict[str, str], tuple[Taint, ...]]:
    """What pods may use of a new machine, its labels and its taints."""
    labels = {key: label_value(value) for key, value in offer_labels(offer).items() if value}
    labels |= {"kubernetes.io/os": "linux", "kubernetes.io/arch": offer.arch}
    taints = [Taint("tgp.io/ephemeral", "NoSchedule")]
    taints += [Taint("tgp.io/untrusted", "NoSchedule")] * (offer.trust < Trust.DATACENTER)
    taints += [Taint(row.key, row.effect, row.value or "") for row in pool.pool.spec.template.spec.taints]
    free = Resources(
        offer.vcpus * 1000 - SYSTEM_MILLI,
        int(offer.memory_gib * GIB * (1 - KERNEL_SHARE)),
        ((GPU, offer.gpu_count), ("ephemeral-storage", offer.disk_gib * GIB), ("pods", 110)),
    )
    return _without_daemon_sets(world, free, labels, taints), labels, tuple(taints)


def free_on(world: PlanInput, place: Capacity) -> Resources:
    if place.coming is None:
        return place.free
    return _without_daemon_sets(world, place.free, place.labels, place.taints)


def _without_daemon_sets(
    world: PlanInput, free: Resources, labels: Mapping[str, str], taints: Iterable[Taint]
) -> Resources:
    hard = tuple(taints)
    for each in world.daemon_sets:
        if _would_run(each, labels, hard):
            taken = each.requests + Resources(0, 0, (("pods", 1),))
            free = free + Resources(
                -taken.cpu_milli, -taken.memory_bytes, tuple((name, -many) for name, many in taken.others)
            )
    return free


def _would_run(daemon_set: DaemonSet, labels: Mapping[str, str], taints: tuple[Taint, ...]) -> bool:
    selected = all(labels.get(key) == value for key, value in daemon_set.node_selector.items())
    admitted = daemon_set.affinity.admits_node("", labels)
    return selected and admitted and untolerated(taints, daemon_set.tolerations) is None


def _wrong_order(world: PlanInput, order: Order) -> list[str]:
    offer = order.offer
    pool = next(each for each in world.pools if each.key == order.pool)
    free, labels, taints = machine_of(world, pool, offer)
    wrong = wrong_machine(order.pods, free, labels, taints, ())
    wrong += [
        f"{pod.key}: port of DaemonSet {each.key.name}"
        for each in world.daemon_sets
        if _would_run(each, labels, taints)
        for pod in order.pods
        if any(port.collides(other) for port in pod.host_ports for other in each.host_ports)
    ]
    if pool.stopped:
        wrong.append("a stopped pool buys")
    ceiling = pool.pool.spec.max_hourly_price
    if ceiling is not None and offer.hourly_microusd > float(ceiling) * 1e6:
        wrong.append("above the ceiling")
    if offer.boot is BootMode.CONTAINER or offer.stock is Stock.NONE:
        wrong.append("cannot be launched")
    for pod in order.pods:
        patient = pod.annotations == {"tgp.io/max-price": "0.4"}
        if patient and offer.per_gpu_microusd > 400_000:
            wrong.append("above the pod's own price")
        if pod.volume_claims == ("nowhere",):
            wrong.append("a claim that does not exist")
        if offer.trust < Trust.DATACENTER and "team" not in pool.untrusted_namespaces:
            wrong.append("a marketplace host without consent")
    return wrong


def wrong_machine(
    pods: Sequence[Pod],
    free: Resources,
    labels: Mapping[str, str],
    taints: tuple[Taint, ...],
    running: Sequence[Pod],
) -> list[str]:
    """What keeps these pods from running together on one machine."""
    wrong = []
    need = Resources()
    for pod in pods:
        need = need + pod.requests + Resources(0, 0, (("pods", 1),))
        if any(labels.get(key) != value for key, value in pod.node_selector.items()):
            wrong.append(f"{pod.key}: node selector")
        if not pod.affinity.admits_node(labels.get(HOSTNAME, "new"), labels):
            wrong.append(f"{pod.key}: node affinity")
        if untolerated(taints, pod.tolerations) is not None:
            wrong.append(f"{pod.key}: taint")
    if pods and not need.fits_in(free):
        wrong.append(f"no room: {need} in {free}")
    everyone = [*running, *pods]
    for number, pod in enumerate(everyone):
        others = everyone[:number] + everyone[number + 1 :]
        new = number >= len(running)
        for other in others if new else ():
            if any(port.collides(each) for port in pod.host_ports for each in other.host_ports):
                wrong.append(f"{pod.key}: port")
        for term in pod.affinity.apart:
            if term.topology_key == HOSTNAME:
                bad = [each for each in others if _means(term, pod, each) and (new or each in pods)]
                wrong += [f"{pod.key}: anti-affinity" for _ in bad]
        for spread in pod.spreads if new else ():
            if spread.hard and spread.topology_key == HOSTNAME:
                counted = sum(_counts(spread, pod, each) for each in everyone)
                if counted > max(spread.max_skew, 1):
                    wrong.append(f"{pod.key}: spread by host")
    return wrong


def _means(term: PodTerm, pod: Pod, other: Pod) -> bool:
    own = not term.namespaces and term.namespace_selector is None and pod.key.namespace == other.key.namespace
    named = other.key.namespace in term.namespaces or term.namespace_selector is not None
    return (own or named) and term.selector.selects(other.labels)


def _counts(spread: SpreadConstraint, pod: Pod, other: Pod) -> bool:
    same = all(pod.labels.get(key) == other.labels.get(key) for key in spread.match_label_keys if key in pod.labels)
    return same and pod.key.namespace == other.key.namespace and spread.selector.selects(other.labels)


def _wrong_totals(world: PlanInput, answer: Plan) -> list[str]:
    wrong = []
    for offer in {order.offer.key: order.offer for order in answer.orders}.values():
        many = sum(order.offer.key == offer.key for order in answer.orders)
        if offer.left is not None and many > offer.left:
            wrong.append(f"more than there are: {many} of {offer.left} {offer.sku}")
    for limit in world.limits:
        counted = [order for order in answer.orders if order.pool in limit.pools]
        used = {
            "usd": sum(order.hourly_microusd for order in counted),
            "nodes": len(counted),
            "cpu": sum(order.offer.vcpus * 1000 for order in counted),
            "memory": sum(order.offer.memory_gib * GIB for order in counted),
            GPU: sum(order.offer.gpu_count for order in counted),
        }[limit.resource]
        if used > limit.left:
            wrong.append(f"limit {limit.name}: {used} of {limit.left} {limit.resource}")
    return wrong
