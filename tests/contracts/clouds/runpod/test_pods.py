"""Pods as instances: what costs money is never taken for nothing."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from tests.contracts.clouds.runpod.answers import CARD, TOKEN, a_pod, an_offer, an_order, reply
from tgp.adapters.clouds.runpod import wire
from tgp.core.model.cloud_errors import CannotTell, OrderRefused
from tgp.core.model.instance import Instance, InstanceState
from tgp.ports.cloud import Container


def read(**changes: Any) -> Instance:
    (one,) = wire.read_pods([a_pod(**changes)])
    return one


def test_a_running_pod_says_all_that_is_asked():
    assert read() == Instance(
        id="7h9k2m4n6p",
        token=TOKEN,
        state=InstanceState.RUNNING,
        said="RUNNING",
        sku=f"{CARD}:2:SECURE",
        place="EU-RO-1",
        vcpus=12,
        memory_gib=82,
        hourly_microusd=1_380_000,
        created_at=datetime(2026, 6, 1, 12, tzinfo=UTC),
        public_ip="203.0.113.9",
        private_ip="10.65.1.42",
    )


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("PROVISIONING", InstanceState.STARTING),
        ("STARTING", InstanceState.STARTING),
        ("RUNNING", InstanceState.RUNNING),
        ("EXITED", InstanceState.STOPPED),
        ("ERROR", InstanceState.BROKEN),
        ("TERMINATED", InstanceState.ENDING),
        ("HIBERNATING", InstanceState.UNKNOWN),
        (None, InstanceState.UNKNOWN),
        (7, InstanceState.UNKNOWN),
    ],
)
def test_every_state_is_still_ours(status: Any, state: InstanceState):
    assert read(status=status).state is state


def test_running_without_a_runtime_is_progress_and_not_running():
    """The classic dead pod: billed, and not usable yet. Its start must run into its deadline."""
    pod = read(runtime=None)

    assert pod.state is InstanceState.STARTING
    assert pod.progress == pod.said == "RUNNING, but its container is not up"


def test_a_stopped_pod_does_not_claim_to_be_free():
    """It says 0, and its disk is billed."""
    assert read(status="EXITED", cost=0.0, runtime=None).hourly_microusd is None


@pytest.mark.parametrize("told", [{}, {"vcpuCount": None, "memory": "82"}, {"vcpuCount": 0, "memory": -1}, None])
def test_a_pod_that_does_not_tell_its_size_is_not_one_of_nothing(told: Any):
    pod = read(gpu=told if told is None else {"id": CARD, "count": 2, **told})

    assert (pod.vcpus, pod.memory_gib) == (0, 0)


@pytest.mark.parametrize("cost", [None, "free", -1, 10**9, True])
def test_a_cost_that_is_none_is_not_told(cost: Any):
    assert read(cost=cost).hourly_microusd is None


def test_a_renamed_pod_is_found_by_its_environment():
    assert read(name="my favourite pod").token == TOKEN


def test_a_foreign_pod_keeps_its_own_name():
    assert read(name="comfyui", env={}).token == "comfyui"
    assert read(name="comfyui", env=None).token == "comfyui"


@pytest.mark.parametrize("changes", [{"id": None}, {"id": "a/b"}, {"name": None}, {"name": 7}, {"name": ["x"]}])
def test_a_row_that_cannot_be_read_may_be_ours(changes: dict[str, Any]):
    with pytest.raises(CannotTell):
        read(**changes)


def test_a_list_with_a_row_that_is_no_pod_proves_nothing():
    with pytest.raises(CannotTell):
        wire.read_pods([a_pod(), None])


def test_another_pod_than_the_one_asked_for_proves_nothing():
    with pytest.raises(CannotTell):
        wire.read_pod(reply(200, a_pod()), "another")


def test_an_answer_with_an_id_is_a_pod_whatever_else_it_lacks():
    made = wire.read_launch(reply(201, {"id": "7h9k2m4n6p"}), an_order())

    assert (made.id, made.token, made.state) == ("7h9k2m4n6p", TOKEN, InstanceState.STARTING)


@pytest.mark.parametrize(
    ("container", "sent"),
    [
        (Container("ubuntu"), {}),
        (Container("ubuntu", command=("-v",)), {"cmd": ["-v"]}),
        (Container("ubuntu", entrypoint=("sh", "-c")), {"entrypoint": ["sh", "-c"]}),
        (
            Container("ubuntu", command=("sleep 1",), entrypoint=("sh", "-c")),
            {"entrypoint": ["sh", "-c"], "cmd": ["sleep 1"]},
        ),
    ],
    ids=["the image's own", "arguments", "entrypoint", "both"],
)
def test_the_order_says_what_the_container_runs(container: Container, sent: dict[str, Any]):
    body = msgspec.json.decode(wire.launch(an_order(container=container)).body)

    assert {name: body[name] for name in ("entrypoint", "cmd", "args") if name in body} == sent


def test_the_order_carries_the_token_last_and_everywhere():
    env = (("MODEL", "llama"), ("TGP_TOKEN", "another tenant's"))
    order = an_order(container=Container("ubuntu", env, ("sh", "-c", "sleep 1")), tags=(("team", "blue"),))
    call = wire.launch(order)

    assert (call.method, call.path) == ("POST", "/v2/pods")
    assert msgspec.json.decode(call.body) == {
        "name": TOKEN,
        "image": "ubuntu",
        "gpu": {"id": CARD, "count": 2, "minCudaVersion": "12.8"},
        "cloud": "SECURE",
        "dataCenterIds": ["EU-RO-1"],
        "disk": 50,
        "env": {"MODEL": "llama", "TGP_TAGS": '{"team":"blue"}', "TGP_TOKEN": TOKEN},
        "cmd": ["sh", "-c", "sleep 1"],
    }
    assert read(env={"TGP_TAGS": '{"team":"blue"}'}).tags == {"team": "blue"}


def test_an_offer_from_anywhere_names_no_data_centre():
    offer = an_offer(sku=f"{CARD}:1:COMMUNITY", place="anywhere")
    body = msgspec.json.decode(wire.launch(an_order(offer=offer)).body)

    assert "dataCenterIds" not in body
    assert (body["cloud"], body["gpu"]["count"]) == ("COMMUNITY", 1)


@pytest.mark.parametrize(
    ("count", "asked", "wanted"),
    [
        (1, {}, {}),
        (1, {"min_vcpus": 8}, {"minVcpuCountPerGpu": 8}),
        (2, {"min_vcpus": 9, "min_memory_gib": 64}, {"minVcpuCountPerGpu": 5, "minRamPerGpu": 32}),
        (8, {"min_memory_gib": 1}, {"minRamPerGpu": 1}),
    ],
)
def test_the_least_of_the_whole_machine_is_asked_for_per_gpu(count, asked, wanted):
    """Rounded up: what RunPod places has at least as much as the class wants."""
    order = an_order(offer=an_offer(sku=f"{CARD}:{count}:SECURE", gpu_count=count), **asked)
    gpu = msgspec.json.decode(wire.launch(order).body)["gpu"]

    assert gpu == {"id": CARD, "count": count, "minCudaVersion": "12.8", **wanted}


def test_a_card_without_cuda_is_ordered_without_a_version():
    offer = an_offer(sku="AMD Instinct MI300X OAM:1:SECURE", gpu="MI300X", gpu_count=1)

    assert msgspec.json.decode(wire.launch(an_order(offer=offer)).body)["gpu"] == {
        "id": "AMD Instinct MI300X OAM",
        "count": 1,
    }


@pytest.mark.parametrize("changes", [{"container": None}, {"user_data": b"machine config"}])
def test_what_a_container_cannot_be_is_refused_before_anything_is_sent(changes: dict[str, Any]):
    with pytest.raises(OrderRefused):
        wire.launch(an_order(**changes))
