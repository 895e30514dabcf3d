"""What the Node of a request wears, and that one patch puts it right."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.api.common import REQUIREMENT_KEYS
from tgp.api.common import Taint as WrittenTaint
from tgp.api.nodepool import GPUNodePool
from tgp.api.pattern import matches
from tgp.api.request import Attempt, ChosenOffer, GPURequest, GPURequestSpec, GPURequestStatus
from tgp.api.rules import LABEL_VALUE_PATTERN
from tgp.core.model.key import Key
from tgp.core.model.node import Node
from tgp.core.model.pod import Owner
from tgp.core.model.record import pack_uid
from tgp.core.model.taints import Taint
from tgp.core.model.token import token_for
from tgp.core.model.typed import Typed
from tgp.core.rules.device_plugin import EPHEMERAL
from tgp.core.rules.drain import CORDONED, DISRUPTED, cordon
from tgp.core.rules.node_dress import REMEMBERED, RESERVED, Dress, dress_of, future_node, mend, slug, undress
from tgp.core.rules.purchase import offer_of

UID = "0a1b2c3d-0000-4000-8000-00000000000f"
TOKEN = token_for("0123456789", UID, 1)
POOL = Owner("GPUNodePool", "trainers", controller=True)


def a_request(labels: dict[str, str] | None = None, taints=(), mesh: str | None = None, **rest) -> Typed[GPURequest]:
    written = GPURequest(
        spec=GPURequestSpec(gpu_type="RTX4090", labels=labels or {}, taints=taints),
        status=GPURequestStatus(mesh_hostname=mesh),
    )
    return Typed(key=Key("ml", "train-7"), uid=pack_uid(UID), object=written, **rest)


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


def a_dress(record: Typed[GPURequest] | None = None, pool: GPUNodePool | None = None, **offer) -> Dress:
    dress = dress_of(record or a_request(), an_attempt(**offer), pool)
    assert dress is not None
    return dress


def a_node(**rest) -> Node:
    return Node(key=Key("", "gpu-1"), **rest)


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


def worn(node: Node, dress: Dress, *, initialized: bool = False) -> Node:
    return patched(node, mend(node, dress, initialized=initialized))


def test_the_labels_are_those_that_the_api_promises():
    node = worn(a_node(), a_dress(a_request(owners=(POOL,), mesh="gpu-1.tail.net")))

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
        ({"gpu_memory_gib": 0}, "tgp.io/gpu-memory", None),  # not told
        ({"region": "unknown"}, "tgp.io/region", "unknown"),
        ({"region": "unknown"}, "topology.kubernetes.io/region", None),  # two unknown places are not one
        ({}, "tgp.io/nodepool", None),
        ({"instance_type": "NVIDIA A100 (80 GB) / x8"}, "node.kubernetes.io/instance-type", "NVIDIA-A100-80-GB-x8"),
    ],
)
def test_a_label_says_what_is_known(offer, name, value):
    assert a_dress(**offer).labels.get(name) == value


def test_the_raw_value_of_a_slugged_label_is_in_an_annotation():
    dress = a_dress(region="Oregon, US", instance_type="東京")

    assert dress.labels["tgp.io/region"] == "Oregon-US"
    assert dress.annotations["tgp.io/region-raw"] == "Oregon, US"
    assert "node.kubernetes.io/instance-type" not in dress.labels
    assert dress.annotations["tgp.io/instance-type-raw"] == "東京"


def test_the_price_is_the_one_that_is_billed():
    attempt = msgspec.structs.replace(an_attempt(), hourly_price="0.75")

    assert dress_of(a_request(), attempt).annotations["tgp.io/hourly-price"] == "0.75"


def test_a_record_that_does_not_say_what_was_bought_dresses_nothing():
    assert dress_of(a_request(), Attempt(number=1, token=TOKEN)) is None
    assert dress_of(Typed(key=Key("ml", "r"), unreadable="newer"), an_attempt()) is None


@given(st.dictionaries(st.sampled_from([*sorted(RESERVED), "team", "topology.kubernetes.io/region"]), st.just("mine")))
def test_no_label_of_a_user_wins_over_ours(labels):
    """Nobody joins another's pool or hides a machine from its owner by a label."""
    plain, dressed = a_dress().labels, a_dress(a_request(labels=labels)).labels

    assert {name: text for name, text in dressed.items() if name != "team"} == plain
    assert dressed.get("team") == labels.get("team")


def test_a_request_goes_before_its_pool():
    pool = a_pool(
        metadata={"labels": {"team": "pool", "tier": "gold"}, "annotations": {"example.com/a": "1", "tgp.io/x": "2"}}
    )
    node = worn(a_node(), a_dress(a_request(labels={"team": "mine"}), pool))

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

    assert (EPHEMERAL in a_dress(pool=pool, boot_mode=boot).taints) == tainted


def test_taints_are_put_back_until_the_node_is_initialised_and_then_left_to_the_administrator():
    dress = a_dress(a_request(taints=(WrittenTaint(key="team", value="ml", effect="NoSchedule"),)))
    bare = msgspec.structs.replace(worn(a_node(), dress), taints=(Taint("team", "NoSchedule", "other"),))

    assert set(worn(bare, dress).taints) == {Taint("team", "NoSchedule", "ml"), EPHEMERAL}
    assert mend(bare, dress, initialized=True) is None


def test_start_up_taints_are_hung_up_once():
    cni = Taint("cni", "NoExecute")
    dress = a_dress(pool=a_pool(spec={"startupTaints": [{"key": "cni", "effect": "NoExecute"}]}))
    first = worn(a_node(), dress)

    assert set(first.taints) == {cni, EPHEMERAL}
    assert mend(msgspec.structs.replace(first, taints=(EPHEMERAL,)), dress, initialized=False) is None


def test_a_label_taken_out_of_the_spec_leaves_the_node():
    before = worn(a_node(labels={"theirs": "x"}), a_dress(a_request(labels={"team": "ml", "stage": "dev"})))
    after = worn(before, a_dress(a_request(labels={"team": "ml"})), initialized=True)

    assert (after.labels["team"], after.labels["theirs"]) == ("ml", "x")
    assert "stage" not in after.labels
    assert "stage" not in after.annotations[REMEMBERED]


def test_labels_are_corrected_for_life():
    dress = a_dress()
    node = worn(a_node(), dress)
    bent = msgspec.structs.replace(
        node, labels={**node.labels, "tgp.io/gpu-type": "H100", "tgp.io/nodepool": "somebodys"}
    )

    assert worn(bent, dress, initialized=True).labels == node.labels


def test_a_kubelet_cannot_have_labels_of_kubernetes_removed_through_our_memory():
    """It may write its Node's annotations, and must not gain by them what it may not do itself."""
    guarded = "node-restriction.kubernetes.io/tenant"
    dress = a_dress()
    node = worn(a_node(labels={guarded: "a"}), dress)
    lying = msgspec.structs.replace(
        node, annotations={**node.annotations, REMEMBERED: f"{node.annotations[REMEMBERED]},{guarded}"}
    )

    assert worn(lying, dress).labels[guarded] == "a"


def test_what_the_kubelet_says_of_its_own_machine_is_not_overwritten_nor_removed():
    node = a_node(labels={"kubernetes.io/arch": "amd64"})
    before = worn(node, a_dress(a_request(labels={"kubernetes.io/arch": "arm64"})))

    assert before.labels["kubernetes.io/arch"] == "amd64"
    assert worn(before, a_dress()).labels["kubernetes.io/arch"] == "amd64"


@pytest.mark.parametrize("broken", [{"provider_id": "aws:///i-0"}, {"unreadable": "it is malformed"}])
def test_a_node_that_is_not_ours_or_cannot_be_read_is_left_as_it_is(broken):
    assert mend(a_node(**broken), a_dress(), initialized=False) is None


def test_an_owned_machine_keeps_its_provider_id_and_what_others_said_of_it():
    own = {"topology.kubernetes.io/region": "cellar", "nvidia.com/gpu.present": "true"}
    node = a_node(provider_id="talos://box", labels=own)
    dressed = worn(node, a_dress(boot_mode="power", region="eu-west"))

    assert dressed.provider_id == "talos://box"
    assert dressed.labels["topology.kubernetes.io/region"] == "cellar"
    assert dressed.labels["tgp.io/region"] == "eu-west"
    assert patched(dressed, undress(dressed, UID, a_dress(boot_mode="power"))) == node


def test_the_next_request_of_an_owned_machine_finds_it_open():
    """Also when the last one's finalizer was torn off, and nobody undressed the Node."""
    last = worn(a_node(), a_dress(boot_mode="power"))
    closed = patched(last, cordon(last))
    assert (closed.cordoned, DISRUPTED in closed.taints) == (True, True)

    following = a_dress(msgspec.structs.replace(a_request(), uid="another"), boot_mode="power")
    opened = worn(closed, following)

    assert (opened.cordoned, opened.taints) == (False, ())
    assert CORDONED not in opened.annotations
    assert mend(opened, following, initialized=False) is None


def test_a_request_that_is_over_does_not_undress_its_successors_machine():
    following = a_dress(msgspec.structs.replace(a_request(), uid="another"), boot_mode="power")

    assert undress(worn(a_node(), following), UID, a_dress(boot_mode="power")) is None


def test_a_cordon_of_the_administrator_outlasts_the_request():
    node = a_node(cordoned=True)
    closed = patched(node, cordon(node))

    assert patched(closed, undress(closed, UID, None)) == node


def test_a_machine_on_its_way_out_stays_closed_when_its_labels_are_corrected():
    dress = a_dress()
    node = worn(a_node(), dress)
    closed = patched(node, cordon(node))

    assert mend(closed, dress, initialized=False) is None
    assert mend(closed, dress, initialized=True) is None


def test_the_future_node_is_the_one_that_will_register():
    offer = offer_of(an_offer())
    pool = a_pool(spec={"startupTaints": [{"key": "cni", "effect": "NoExecute"}]})
    future = future_node(a_request(labels={"team": "ml"}), offer, pool)
    dress = a_dress(a_request(labels={"team": "ml"}), pool)

    assert future.taints == dress.taints == (EPHEMERAL,)
    assert dress.labels.items() <= future.labels.items()
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
    lambda labels, boot, taints: a_dress(
        a_request(labels=labels, taints=tuple(WrittenTaint(key=t.key, effect=t.effect, value=t.value) for t in taints)),
        boot_mode=boot,
    ),
    st.dictionaries(st.sampled_from(["team", "stage", "kubernetes.io/arch"]), VALUES),
    st.sampled_from(["native", "power"]),
    TAINTS,
)


@given(node=NODES, dress=DRESSES, initialized=st.booleans())
def test_one_patch_puts_it_right_and_a_second_one_is_not_sent(node, dress, initialized):
    once = worn(node, dress, initialized=initialized)

    assert mend(once, dress, initialized=initialized) is None
    assert {name: once.labels[name] for name in dress.labels if name not in dress.left_alone}.items() <= (
        dress.labels.items()
    )


@given(node=NODES, dress=DRESSES)
def test_what_others_put_there_stays(node, dress):
    once = worn(node, dress)
    claimed = dress.labels.keys() | RESERVED | set(node.annotations.get(REMEMBERED, "").split(","))
    keys = {(taint.key, taint.effect) for taint in dress.taints}

    assert {(k, v) for k, v in node.labels.items() if k not in claimed} <= set(once.labels.items())
    assert {taint for taint in node.taints if (taint.key, taint.effect) not in keys} <= set(once.taints)
    assert once.annotations.get("tgp.io/uid") == node.annotations.get("tgp.io/uid")


@given(labels=st.dictionaries(st.sampled_from(["theirs", "example.com/x", "kubernetes.io/arch"]), VALUES))
def test_dressing_and_undressing_leaves_no_trace(labels):
    node = a_node(labels=labels, provider_id="talos://box", taints=(Taint("cellar", "NoSchedule"),))
    dress = a_dress(
        a_request(labels={"team": "ml"}, taints=(WrittenTaint(key="team", effect="NoSchedule"),)), boot_mode="power"
    )
    dressed = worn(node, dress)
    closed = patched(dressed, cordon(dressed))

    assert patched(closed, undress(closed, UID, dress)) == node
    assert undress(node, UID, dress) is None


@given(st.text(max_size=200))
def test_a_slug_is_a_label_value(text):
    assert len(slug(text)) <= 63
    assert matches(slug(text), LABEL_VALUE_PATTERN)
