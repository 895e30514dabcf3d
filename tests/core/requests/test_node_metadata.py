"""The desired metadata of a request's Node, and that one patch applies it."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.api.cel import LABEL_VALUE_PATTERN
from tgp.api.common import REQUIREMENT_KEYS
from tgp.api.common import TaintSpec as WrittenTaint
from tgp.api.nodepool import GPUNodePool
from tgp.api.pattern import matches
from tgp.api.request import Attempt, ChosenOffer, GPURequest, GPURequestSpec, GPURequestStatus
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import OFF_SINCE, Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer_labels import slug
from tgp.core.model.pod import OwnerRef
from tgp.core.model.record import pack_uid
from tgp.core.model.taints import Taint
from tgp.core.model.token import token_for
from tgp.core.requests.chosen_offer import offer_of
from tgp.core.requests.device_plugin import EPHEMERAL
from tgp.core.requests.drain import CORDONED, DISRUPTED, cordon
from tgp.core.requests.node_metadata import (
    ANNOTATED,
    REMEMBERED,
    RESERVED,
    NodeMetadata,
    cleanup_patch,
    desired_metadata,
    future_node,
    metadata_patch,
    off_since,
)

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
UID = "0a1b2c3d-0000-4000-8000-00000000000f"
TOKEN = token_for("0123456789", UID, 1)
POOL = OwnerRef("GPUNodePool", "trainers", controller=True)


def a_request(
    labels: dict[str, str] | None = None, taints=(), mesh: str | None = None, **rest
) -> KubeObject[GPURequest]:
    written = GPURequest(
        spec=GPURequestSpec(gpu_type="RTX4090", labels=labels or {}, taints=taints),
        status=GPURequestStatus(mesh_hostname=mesh),
    )
    return KubeObject(key=ObjectKey("ml", "train-7"), uid=pack_uid(UID), value=written, **rest)


def an_offer(**rest) -> ChosenOffer:
    values = {
        "provider": "simulated",
        "instance_type": "gpu-2x-4090",
        "region": "eu-west",
        "gpu_type": "RTX4090",
        "gpu_count": 2,
        "gpu_memory_gib": 24,
        "boot_mode": "native",
        "hourly_price": "0.80",
        **rest,
    }
    return ChosenOffer(**values)


def an_attempt(**rest) -> Attempt:
    return Attempt(number=1, token=TOKEN, offer=an_offer(**rest))


def a_pool(**template: Any) -> GPUNodePool:
    document = {"spec": {"nodeClassRef": {"name": "c"}, "template": template}}
    return msgspec.convert(document, GPUNodePool)


def metadata_of(record: KubeObject[GPURequest] | None = None, pool: GPUNodePool | None = None, **offer) -> NodeMetadata:
    metadata = desired_metadata(record or a_request(), an_attempt(**offer), pool)
    assert metadata is not None
    return metadata


def a_node(**rest) -> Node:
    return Node(key=ObjectKey("", "gpu-1"), **rest)


def patched(node: Node, change: dict[str, Any] | None) -> Node:
    """As the API server would: a merge patch, None removing."""
    change = change or {}
    metadata, spec = change.get("metadata", {}), change.get("spec", {})

    def merged(held, part):
        return {name: text for name, text in {**held, **part}.items() if text is not None}

    return msgspec.structs.replace(
        node,
        labels=merged(node.labels, metadata.get("labels", {})),
        annotations=merged(node.annotations, metadata.get("annotations", {})),
        provider_id=spec.get("providerID", node.provider_id),
        cordoned=bool(spec.get("unschedulable", node.cordoned)),
        taints=tuple(Taint(**row) for row in spec["taints"]) if "taints" in spec else node.taints,
    )


def worn(node: Node, metadata: NodeMetadata, *, initialized: bool = False) -> Node:
    return patched(node, metadata_patch(node, metadata, initialized=initialized))


def test_the_labels_are_those_that_the_api_promises():
    node = worn(a_node(), metadata_of(a_request(owners=(POOL,), mesh="gpu-1.tail.net")))

    assert node.labels == {
        "tgp.io/nodepool": "trainers",
        "tgp.io/nodepool-namespace": "ml",
        "tgp.io/request": "train-7",
        "tgp.io/request-uid": UID,
        "tgp.io/provider": "simulated",
        "tgp.io/gpu-type": "RTX4090",
        "tgp.io/gpu-count": "2",
        "tgp.io/gpu-memory": "24",
        "tgp.io/region": "eu-west",
        "tgp.io/spot": "false",
        "tgp.io/capacity-type": "on-demand",
        "tgp.io/provisioned": "true",
        "nvidia.com/gpu.present": "true",
        "topology.kubernetes.io/region": "eu-west",
        "topology.kubernetes.io/zone": "simulated-eu-west",
        "node.kubernetes.io/instance-type": "gpu-2x-4090",
        "eks-node-viewer/instance-price": "0.80",
    }
    assert node.annotations == {
        "tgp.io/hourly-price": "0.80",
        "tgp.io/mesh-hostname": "gpu-1.tail.net",
        REMEMBERED: ",".join(sorted(node.labels)),
    }
    assert node.provider_id == f"tgp://simulated/{TOKEN}"
    assert node.taints == (EPHEMERAL,)
    assert node.labels.keys() <= set(REQUIREMENT_KEYS)


@pytest.mark.parametrize(
    ("offer", "name", "value"),
    [
        ({"spot": True}, "tgp.io/spot", "true"),
        ({"spot": True}, "tgp.io/capacity-type", "spot"),
        ({"gpu_type": "MI300X"}, "nvidia.com/gpu.present", None),
        ({"gpu_memory_gib": 0}, "tgp.io/gpu-memory", None),  # unknown
        ({"region": "unknown"}, "tgp.io/region", "unknown"),
        ({"region": "unknown"}, "topology.kubernetes.io/region", None),  # two unknown places are not one
        ({"region": "unknown"}, "topology.kubernetes.io/zone", None),
        ({"place": "eu west 1"}, "topology.kubernetes.io/zone", "simulated-eu-west-1"),
        ({}, "tgp.io/nodepool", None),
        ({"instance_type": "NVIDIA A100 (80 GB) / x8"}, "node.kubernetes.io/instance-type", "NVIDIA-A100-80-GB-x8"),
    ],
)
def test_a_label_says_what_is_known(offer, name, value):
    assert metadata_of(**offer).labels.get(name) == value


def test_the_raw_value_of_a_slugged_label_is_in_an_annotation():
    metadata = metadata_of(region="Oregon, US", instance_type="東京")

    assert metadata.labels["tgp.io/region"] == "Oregon-US"
    assert metadata.annotations["tgp.io/region-raw"] == "Oregon, US"
    assert "node.kubernetes.io/instance-type" not in metadata.labels
    assert metadata.annotations["tgp.io/instance-type-raw"] == "東京"


def test_the_price_is_the_one_that_is_billed():
    attempt = msgspec.structs.replace(an_attempt(), hourly_price="0.75")

    assert desired_metadata(a_request(), attempt).annotations["tgp.io/hourly-price"] == "0.75"


def test_a_record_that_does_not_say_what_was_bought_dresses_nothing():
    assert desired_metadata(a_request(), Attempt(number=1, token=TOKEN)) is None
    assert desired_metadata(KubeObject(key=ObjectKey("ml", "r"), unreadable="newer"), an_attempt()) is None


@given(st.dictionaries(st.sampled_from([*sorted(RESERVED), "team", "topology.kubernetes.io/region"]), st.just("mine")))
def test_no_label_of_a_user_wins_over_ours(labels):
    """No user label may join another pool or hide a machine from its owner."""
    plain, with_metadata = metadata_of().labels, metadata_of(a_request(labels=labels)).labels

    assert {name: text for name, text in with_metadata.items() if name != "team"} == plain
    assert with_metadata.get("team") == labels.get("team")


def test_a_request_goes_before_its_pool():
    pool = a_pool(
        metadata={"labels": {"team": "pool", "tier": "gold"}, "annotations": {"example.com/a": "1", "tgp.io/x": "2"}}
    )
    node = worn(a_node(), metadata_of(a_request(labels={"team": "mine"}), pool))

    assert (node.labels["team"], node.labels["tier"]) == ("mine", "gold")
    assert node.annotations["example.com/a"] == "1"
    assert "tgp.io/x" not in node.annotations


@pytest.mark.parametrize(
    ("boot", "said", "tainted"),
    [
        ("native", None, True),
        ("takeover", True, True),
        ("native", False, False),
        ("power", None, False),
        ("power", True, True),
    ],
)
def test_rented_machines_are_marked_as_passing_unless_the_pool_says_otherwise(boot, said, tainted):
    pool = a_pool(spec={} if said is None else {"ephemeralTaint": said})

    assert (EPHEMERAL in metadata_of(pool=pool, boot_mode=boot).taints) == tainted


def test_taints_are_put_back_until_the_node_is_initialised_and_then_left_to_the_administrator():
    metadata = metadata_of(a_request(taints=(WrittenTaint(key="team", value="ml", effect="NoSchedule"),)))
    bare = msgspec.structs.replace(worn(a_node(), metadata), taints=(Taint("team", "NoSchedule", "other"),))

    assert set(worn(bare, metadata).taints) == {Taint("team", "NoSchedule", "ml"), EPHEMERAL}
    assert metadata_patch(bare, metadata, initialized=True) is None


def test_start_up_taints_are_hung_up_once():
    cni = Taint("cni", "NoExecute")
    metadata = metadata_of(pool=a_pool(spec={"startupTaints": [{"key": "cni", "effect": "NoExecute"}]}))
    first = worn(a_node(), metadata)

    assert set(first.taints) == {cni, EPHEMERAL}
    assert metadata_patch(msgspec.structs.replace(first, taints=(EPHEMERAL,)), metadata, initialized=False) is None


def test_a_label_taken_out_of_the_spec_leaves_the_node():
    before = worn(a_node(labels={"theirs": "x"}), metadata_of(a_request(labels={"team": "ml", "stage": "dev"})))
    after = worn(before, metadata_of(a_request(labels={"team": "ml"})), initialized=True)

    assert (after.labels["team"], after.labels["theirs"]) == ("ml", "x")
    assert "stage" not in after.labels
    assert "stage" not in after.annotations[REMEMBERED]


def test_annotations_of_a_template_follow_it_and_what_users_edit_stays_until_it_changes():
    def of(**annotations):
        return metadata_of(pool=a_pool(metadata={"annotations": annotations}))

    before = worn(a_node(), of(**{"example.com/a": "1", "example.com/b": "2"}))
    edited = msgspec.structs.replace(before, annotations={**before.annotations, "example.com/a": "mine"})

    assert metadata_patch(edited, of(**{"example.com/a": "1", "example.com/b": "2"}), initialized=True) is None
    after = worn(edited, of(**{"example.com/a": "3"}), initialized=True)
    assert after.annotations["example.com/a"] == "3"
    assert "example.com/b" not in after.annotations
    bare = worn(after, of(), initialized=True)
    assert not {"example.com/a", ANNOTATED} & bare.annotations.keys()
    assert metadata_patch(bare, of(), initialized=True) is None


def test_a_machine_you_own_keeps_no_annotation_of_a_template():
    metadata = metadata_of(pool=a_pool(metadata={"annotations": {"example.com/a": "1"}}), boot_mode="power")
    node = worn(a_node(annotations={"example.com/own": "x"}), metadata)
    left = patched(node, cleanup_patch(node, a_request().uid_text, metadata, NOW))

    assert left.annotations == {"example.com/own": "x", OFF_SINCE: "2026-11-15T12:00:00Z"}


def test_labels_are_corrected_for_life():
    metadata = metadata_of()
    node = worn(a_node(), metadata)
    bent = msgspec.structs.replace(
        node, labels={**node.labels, "tgp.io/gpu-type": "H100", "tgp.io/nodepool": "somebodys"}
    )

    assert worn(bent, metadata, initialized=True).labels == node.labels


def test_a_kubelet_cannot_have_labels_of_kubernetes_removed_through_our_memory():
    """It may write its Node's annotations, and must not gain by them what it may not do itself."""
    guarded = "node-restriction.kubernetes.io/tenant"
    metadata = metadata_of()
    node = worn(a_node(labels={guarded: "a"}), metadata)
    lying = msgspec.structs.replace(
        node, annotations={**node.annotations, REMEMBERED: f"{node.annotations[REMEMBERED]},{guarded}"}
    )

    assert worn(lying, metadata).labels[guarded] == "a"


def test_what_the_kubelet_says_of_its_own_machine_is_not_overwritten_nor_removed():
    node = a_node(labels={"kubernetes.io/arch": "amd64"})
    before = worn(node, metadata_of(a_request(labels={"kubernetes.io/arch": "arm64"})))

    assert before.labels["kubernetes.io/arch"] == "amd64"
    assert worn(before, metadata_of()).labels["kubernetes.io/arch"] == "amd64"


@pytest.mark.parametrize("broken", [{"provider_id": "aws:///i-0"}, {"unreadable": "it is malformed"}])
def test_a_node_that_is_not_ours_or_cannot_be_read_is_left_as_it_is(broken):
    assert metadata_patch(a_node(**broken), metadata_of(), initialized=False) is None


def test_an_owned_machine_keeps_its_provider_id_and_what_others_said_of_it():
    own = {"topology.kubernetes.io/region": "cellar", "nvidia.com/gpu.present": "true"}
    node = a_node(provider_id="talos://box", labels=own)
    with_metadata = worn(node, metadata_of(boot_mode="power", region="eu-west"))

    assert with_metadata.provider_id == "talos://box"
    assert with_metadata.labels["topology.kubernetes.io/region"] == "cellar"
    assert with_metadata.labels["tgp.io/region"] == "eu-west"
    assert patched(with_metadata, cleanup_patch(with_metadata, UID, metadata_of(boot_mode="power"), NOW)) == off(node)


def off(node: Node) -> Node:
    return msgspec.structs.replace(node, annotations={**node.annotations, OFF_SINCE: "2026-11-15T12:00:00Z"})


def test_a_node_tells_since_when_its_owned_machine_is_off_until_the_next_request():
    node = off(a_node())

    assert off_since(node) == NOW
    assert off_since(worn(node, metadata_of(boot_mode="power"))) is None
    assert off_since(msgspec.structs.replace(node, annotations={OFF_SINCE: "yesterday"})) is None
    assert off_since(msgspec.structs.replace(node, annotations={OFF_SINCE: "2026-11-15t12:00:00z"})) == NOW


def test_the_next_request_of_an_owned_machine_finds_it_open():
    """Also when the last request's finalizer was removed by force, and the Node was not cleaned up."""
    last = worn(a_node(), metadata_of(boot_mode="power"))
    closed = patched(last, cordon(last))
    assert (closed.cordoned, DISRUPTED in closed.taints) == (True, True)

    following = metadata_of(msgspec.structs.replace(a_request(), uid="another"), boot_mode="power")
    opened = worn(closed, following)

    assert (opened.cordoned, opened.taints) == (False, ())
    assert CORDONED not in opened.annotations
    assert metadata_patch(opened, following, initialized=False) is None


def test_a_request_that_is_over_does_not_undress_its_successors_machine():
    following = metadata_of(msgspec.structs.replace(a_request(), uid="another"), boot_mode="power")

    assert cleanup_patch(worn(a_node(), following), UID, metadata_of(boot_mode="power"), NOW) is None


def test_a_cordon_of_the_administrator_outlasts_the_request():
    node = a_node(cordoned=True)
    closed = patched(node, cordon(node))

    assert patched(closed, cleanup_patch(closed, UID, None, NOW)) == node


def test_a_machine_on_its_way_out_stays_closed_when_its_labels_are_corrected():
    metadata = metadata_of()
    node = worn(a_node(), metadata)
    closed = patched(node, cordon(node))

    assert metadata_patch(closed, metadata, initialized=False) is None
    assert metadata_patch(closed, metadata, initialized=True) is None


def test_the_future_node_is_the_one_that_will_register():
    offer = offer_of(an_offer())
    pool = a_pool(spec={"startupTaints": [{"key": "cni", "effect": "NoExecute"}]})
    future = future_node(a_request(labels={"team": "ml"}), offer, pool)
    metadata = metadata_of(a_request(labels={"team": "ml"}), pool)

    assert future.taints == metadata.taints == (EPHEMERAL,)
    assert metadata.labels.items() <= future.labels.items()
    assert future.labels["kubernetes.io/os"] == "linux"


NAMES = st.sampled_from(["team", "stage", "tgp.io/request", "tgp.io/nodepool", "kubernetes.io/arch", "example.com/x"])
VALUES = st.sampled_from(["", "a", "b"])
TAINTS = st.lists(
    st.builds(Taint, st.sampled_from(["cni", "team", "tgp.io/ephemeral"]), st.just("NoSchedule"), VALUES),
    max_size=3,
    unique_by=lambda taint: taint.key,
)
NODES = st.builds(
    a_node,
    labels=st.dictionaries(NAMES, VALUES),
    annotations=st.dictionaries(st.sampled_from([REMEMBERED, "tgp.io/region-raw", CORDONED, "tgp.io/uid"]), VALUES),
    taints=TAINTS.map(tuple),
    cordoned=st.booleans(),
    provider_id=st.just(""),
)
DRESSES = st.builds(
    lambda labels, boot, taints: metadata_of(
        a_request(labels=labels, taints=tuple(WrittenTaint(key=t.key, effect=t.effect, value=t.value) for t in taints)),
        boot_mode=boot,
    ),
    st.dictionaries(st.sampled_from(["team", "stage", "kubernetes.io/arch"]), VALUES),
    st.sampled_from(["native", "power"]),
    TAINTS,
)


@given(node=NODES, metadata=DRESSES, initialized=st.booleans())
def test_one_patch_puts_it_right_and_a_second_one_is_not_sent(node, metadata, initialized):
    once = worn(node, metadata, initialized=initialized)

    assert metadata_patch(once, metadata, initialized=initialized) is None
    assert {name: once.labels[name] for name in metadata.labels if name not in metadata.left_alone}.items() <= (
        metadata.labels.items()
    )


@given(node=NODES, metadata=DRESSES)
def test_what_others_put_there_stays(node, metadata):
    once = worn(node, metadata)
    claimed = metadata.labels.keys() | RESERVED | set(node.annotations.get(REMEMBERED, "").split(","))
    keys = {(taint.key, taint.effect) for taint in metadata.taints}

    assert {(k, v) for k, v in node.labels.items() if k not in claimed} <= set(once.labels.items())
    assert {taint for taint in node.taints if (taint.key, taint.effect) not in keys} <= set(once.taints)
    assert once.annotations.get("tgp.io/uid") == node.annotations.get("tgp.io/uid")


@given(labels=st.dictionaries(st.sampled_from(["theirs", "example.com/x", "kubernetes.io/arch"]), VALUES))
def test_dressing_and_undressing_leaves_no_trace_but_the_time(labels):
    node = a_node(labels=labels, provider_id="talos://box", taints=(Taint("cellar", "NoSchedule"),))
    metadata = metadata_of(
        a_request(labels={"team": "ml"}, taints=(WrittenTaint(key="team", effect="NoSchedule"),)), boot_mode="power"
    )
    with_metadata = worn(node, metadata)
    closed = patched(with_metadata, cordon(with_metadata))

    assert patched(closed, cleanup_patch(closed, UID, metadata, NOW)) == off(node)
    assert cleanup_patch(off(node), UID, metadata, NOW) is None


@given(st.text(max_size=200))
def test_a_slug_is_a_label_value(text):
    assert len(slug(text)) <= 63
    assert matches(slug(text), LABEL_VALUE_PATTERN)
