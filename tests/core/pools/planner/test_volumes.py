"""A machine is bought for a pod with volumes only where the scheduler would let it run."""

from typing import Any

import pytest

from tests.core.pools.planner.worlds import HOSTNAME, NOW, ZONE, a_market, a_node, a_pod, a_world, on_sale, pods
from tgp.core.model.labels import LabelRequirement
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.placement import NAME_FIELD, NodeTerm
from tgp.core.model.storage import Claim, StorageClass, Volume
from tgp.core.pools.planner.plan import plan
from tgp.core.pools.planner.world import Plan, PlanInput

OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
CHEAP, OTHER = on_sale("cheap", 1.0, place="a"), on_sale("other", 2.0, place="b")
IN_A, IN_B = "simulated-a", "simulated-b"  # their zones
CLASSES = (
    StorageClass(key=ObjectKey("", "soon"), provisioner="csi"),
    StorageClass(key=ObjectKey("", "late"), provisioner="csi", binding_mode="WaitForFirstConsumer"),
    StorageClass(
        key=ObjectKey("", "late-in-b"),
        provisioner="csi",
        binding_mode="WaitForFirstConsumer",
        topologies=((LabelRequirement(ZONE, "In", (IN_B,)),),),
    ),
    StorageClass(
        key=ObjectKey("", "static"), provisioner="kubernetes.io/no-provisioner", binding_mode="WaitForFirstConsumer"
    ),
    StorageClass(key=ObjectKey("", "nothing-makes-it"), binding_mode="WaitForFirstConsumer"),
)


def a_claim(**said: Any) -> Claim:
    return Claim(key=ObjectKey("team", "data"), **{"phase": "Pending"} | said)


def a_bound_claim(**said: Any) -> Claim:
    return a_claim(**{"phase": "Bound", "storage_class": "soon", "volume": "v", "bound": True} | said)


def a_volume(**said: Any) -> Volume:
    return Volume(key=ObjectKey("", "v"), **said)


def a_world_with(claim: Claim | None, *volumes: Volume, **said: Any) -> PlanInput:
    return a_world(
        [a_pod(volume_claims=("data",))],
        a_market(CHEAP, OTHER),
        claims={claim.key: claim} if claim is not None else {},
        volumes={each.key.name: each for each in volumes},
        storage_classes={each.key.name: each for each in said.pop("classes", CLASSES)},
        **said,
    )


def bought(answer: Plan) -> list[str]:
    return [order.offer.sku for order in answer.orders]


NOT_READY = {
    "no claim": (None, "PersistentVolumeClaim data does not exist. Create it"),
    "a claim that is deleted": (
        a_bound_claim(deletion_requested_at=NOW),
        "PersistentVolumeClaim data is being deleted. Create it again when it is gone",
    ),
    "a claim whose volume was lost": (
        a_bound_claim(phase="Lost"),
        "PersistentVolumeClaim data is Lost: PersistentVolume v, to which it was bound, is gone. Restore the volume",
    ),
    "a claim that names a volume and is not bound to it": (
        a_claim(volume="v", storage_class="soon"),
        "PersistentVolumeClaim data names PersistentVolume v and is not bound to it. Check that the volume's claimRef",
    ),
    "the same with a class that waits for the first consumer": (
        a_claim(volume="v", storage_class="late"),
        "PersistentVolumeClaim data names PersistentVolume v and is not bound to it",
    ),
    "a claim that is bound to a volume which does not exist": (
        a_bound_claim(volume="gone"),
        "PersistentVolumeClaim data is bound to PersistentVolume gone, which does not exist. Restore the volume",
    ),
    "a claim without a class": (
        a_claim(storage_class=""),
        "PersistentVolumeClaim data is not bound and names no StorageClass. Create a PersistentVolume for it",
    ),
    "a claim whose class does not exist": (
        a_claim(storage_class="fast"),
        "PersistentVolumeClaim data is not bound, and StorageClass fast does not exist. Create the class",
    ),
    "a claim that is bound before its pod is scheduled": (
        a_claim(storage_class="soon"),
        (
            "PersistentVolumeClaim data is not bound yet, and StorageClass soon binds at once: "
            "see kubectl describe pvc data -n team"
        ),
    ),
    "a claim that no volume is made for": (
        a_claim(storage_class="static"),
        "PersistentVolumeClaim data is not bound, and StorageClass static makes no volumes. Create a PersistentVolume",
    ),
    "a claim whose class names no provisioner": (
        a_claim(storage_class="nothing-makes-it"),
        "StorageClass nothing-makes-it makes no volumes",
    ),
    "a claim whose volume is made for a Node that is not there": (
        a_claim(storage_class="late", selected_node="gone"),
        (
            "PersistentVolumeClaim data waits for a volume on Node gone, which takes no pods now. The pod can run on "
            "no other Node: to let the scheduler choose another one, kubectl annotate pvc data -n team "
            "volume.kubernetes.io/selected-node-"
        ),
    ),
}


@pytest.mark.parametrize("name", NOT_READY)
def test_nothing_is_bought_for_a_pod_whose_volumes_keep_it_from_running(name: str) -> None:
    claim, why = NOT_READY[name]
    answer = plan(a_world_with(claim, a_volume(), capacity=(a_node("home"),)))
    (unserved,) = answer.unserved
    assert (bought(answer), answer.placed) == ([], {})
    assert [each.reason for each in unserved.reasons] == ["VolumeNotReady"]
    assert why in unserved.message


def test_the_default_class_is_named_while_kubernetes_has_not_filled_it_in() -> None:
    default = StorageClass(key=ObjectKey("", "usual"), provisioner="csi", is_default=True)
    answer = plan(a_world_with(a_claim(), classes=(*CLASSES, default)))
    assert not answer.orders
    assert answer.unserved[0].message == (
        "PersistentVolumeClaim data is not bound and names no StorageClass. Kubernetes fills in its default, usual; "
        "if it does not, create the claim again"
    )


def test_a_volume_that_cannot_be_read_is_no_reason_to_buy() -> None:
    answer = plan(a_world_with(a_bound_claim(), a_volume(unreadable="spec.nodeAffinity: unknown")))
    assert not answer.orders
    assert "PersistentVolume v cannot be read: spec.nodeAffinity: unknown" in answer.unserved[0].message


SERVED: dict[str, tuple[Claim, tuple[Volume, ...], str]] = {
    "a volume that every machine reaches": (a_bound_claim(), (a_volume(),), "cheap"),
    "a volume of one zone": (
        a_bound_claim(),
        (a_volume(node_terms=(NodeTerm((LabelRequirement(ZONE, "In", (IN_B,)),)),)),),
        "other",
    ),
    "a volume labelled with its zone": (a_bound_claim(), (a_volume(labels={ZONE: IN_B}),), "other"),
    "a volume labelled with its zones": (a_bound_claim(), (a_volume(labels={ZONE: f"x__{IN_B}"}),), "other"),
    "a volume labelled with its zone by the old name": (a_bound_claim(), (a_volume(labels={OLD_ZONE: IN_B}),), "other"),
    "a volume that is made anywhere": (a_claim(storage_class="late"), (), "cheap"),
    "a volume that is made in one zone": (a_claim(storage_class="late-in-b"), (), "other"),
}


@pytest.mark.parametrize("name", SERVED)
@pytest.mark.parametrize("beside", [{}, {OLD_ZONE: "home"}, {ZONE: "home"}, {OLD_ZONE: IN_A, ZONE: "home"}])
def test_the_machine_is_bought_where_the_volume_is(name: str, beside: dict[str, str]) -> None:
    """Whatever another, full Node calls its zone."""
    claim, volumes, sku = SERVED[name]
    full = a_node("home", 0, labels={HOSTNAME: "home", **beside})
    assert bought(plan(a_world_with(claim, *volumes, capacity=(full,)))) == [sku]


def test_a_node_is_in_the_zone_that_its_old_label_says() -> None:
    claim, volume = a_bound_claim(), a_volume(labels={OLD_ZONE: IN_B})
    old, new = a_node("old", labels={OLD_ZONE: IN_A, ZONE: IN_B}), a_node("new", labels={ZONE: IN_B})
    assert plan(a_world_with(claim, volume, capacity=(old, new))).placed == {"uid-train": "new"}


def test_a_node_without_any_zone_reaches_every_zone() -> None:
    answer = plan(a_world_with(a_bound_claim(), a_volume(labels={ZONE: "elsewhere"}), capacity=(a_node("plain"),)))
    assert answer.placed == {"uid-train": "plain"}


def test_a_volume_that_names_its_node_by_a_field_is_reached_nowhere() -> None:
    """The scheduler compares it with labels alone; a Node's name is the label `kubernetes.io/hostname` there."""
    named = NodeTerm((), (LabelRequirement(NAME_FIELD, "In", ("home",)),))
    answer = plan(a_world_with(a_bound_claim(), a_volume(node_terms=(named,)), capacity=(a_node("home"),)))
    assert (answer.placed, answer.orders) == ({}, ())


def test_a_volume_that_is_made_for_a_node_takes_its_pod_there_and_nowhere_else() -> None:
    claim, third = a_claim(storage_class="late", selected_node="chosen"), a_node("third")
    served = plan(a_world_with(claim, capacity=(third, a_node("chosen"))))
    assert (served.placed, served.orders) == ({"uid-train": "chosen"}, ())

    waits = plan(a_world_with(claim, capacity=(third, a_node("chosen", 0))))
    assert (waits.placed, waits.orders) == ({}, ())
    assert waits.unserved[0].reasons[0].reason == "VolumeNotReady"
    assert waits.unserved[0].message == (
        "PersistentVolumeClaim data waits for a volume on Node chosen, where the pod does not fit now. The pod can run "
        "on no other Node: to let the scheduler choose another one, kubectl annotate pvc data -n team "
        "volume.kubernetes.io/selected-node-"
    )


def test_a_machine_on_its_way_is_not_the_node_that_a_volume_is_made_for() -> None:
    claim = a_claim(storage_class="late", selected_node="chosen")
    coming = a_node("chosen", coming=ObjectKey("team", "chosen"))
    assert plan(a_world_with(claim, capacity=(coming,))).placed == {}


def test_other_pods_are_bought_for_beside_one_that_waits_for_its_volume() -> None:
    world = a_world([a_pod("stuck", volume_claims=("data",)), *pods(1)], a_market(CHEAP), claims={})
    answer = plan(world)
    assert [pod.key.name for order in answer.orders for pod in order.pods] == ["train-0"]
