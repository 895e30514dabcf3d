"""The harness of the lifecycle tests: what a provider is told about a Node arrives at its machine, which becomes it."""

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from tests.controlplane.node_registrar import GPU, NodeRegistrar
from tests.controlplane.providers import PROVIDERS, settings_of
from tests.controlplane.simulators import Simulators
from tgp.adapters.clock import SystemClock
from tgp.adapters.clouds.registry import AllClouds
from tgp.adapters.entropy import SystemEntropy
from tgp.adapters.http.client_pool import http_client_pool
from tgp.adapters.resolver import SystemResolver
from tgp.api.common import DEFAULT_KEYS
from tgp.core.model.instance import Instance
from tgp.core.model.offer import BootMode, Stock
from tgp.core.model.secret import Secret
from tgp.core.model.source import source_of
from tgp.ports.cloud import LaunchOrder
from tgp.sim.clouds.cloud_faults import CloudVerb
from tgp.sim.clouds.fleet import Fleet
from tgp.sim.node_bootstrap import boot_identity_of
from tgp.sim.plain_boot import PlainBoot

TOKEN = "tgp-0123456789-0123456789abcdef0123456789abcdef-1"
NODE = "tgp-node-1"
RENTED = tuple(name for name, asked in PROVIDERS.items() if name != "webhook" and asked.boots != (BootMode.CONTAINER,))


@pytest.fixture(scope="module")
def simulators() -> Iterator[Simulators]:
    with Simulators("nodes") as open_now:
        yield open_now


def rented(simulators: Simulators, provider: str, node: str = NODE) -> Instance:
    """The cheapest machine there, ordered as the operator orders it."""
    provider_id = f"tgp://{provider}/{TOKEN}"

    async def order() -> Instance:
        clock = SystemClock()
        async with http_client_pool(clock) as dial:
            clouds = AllClouds(dial, clock, SystemEntropy(), SystemResolver())
            variable = DEFAULT_KEYS.get(provider)
            key = Secret(simulators.keys()[variable]) if variable else None
            source = source_of(provider, "", "", settings_of(provider, simulators.urls()[provider]))
            cloud = clouds.open(source, key, {})
            sold = [offer for offer in (await cloud.offers()).offers if not offer.spot and offer.stock != Stock.NONE]
            offer = min(sold, key=lambda offer: (offer.gpu_count, offer.hourly_microusd, offer.key))
            boot_request = SimpleNamespace(offer=offer, node_name=node, provider_id=provider_id)
            boot_payload = await PlainBoot().pack(boot_request)  # type: ignore[arg-type] - it looks at nothing else
            return await cloud.launch(
                LaunchOrder(
                    offer,
                    TOKEN,
                    2 * offer.hourly_microusd,
                    user_data=boot_payload.user_data,
                    image=boot_payload.image,
                )
            )

    return asyncio.run(order())


@pytest.mark.parametrize("provider", RENTED)
def test_a_machine_is_told_which_node_it_shall_be(simulators, provider):
    rented(simulators, provider)

    _, machine = simulators.machines(provider)[-1]
    plate = boot_identity_of(provider, machine)
    assert plate is not None, (machine.user_data, machine.detail)
    assert (plate.node, plate.provider_id) == (NODE, f"tgp://{provider}/{TOKEN}")


def test_a_held_answer_comes_after_the_provider_did_as_asked(simulators):
    before = len(simulators.machines("simulated"))
    held = simulators.hold("simulated", CloudVerb.LAUNCH)
    done: list[Instance] = []

    async def order() -> None:
        done.append(await asyncio.to_thread(rented, simulators, "simulated"))

    async def both() -> None:
        ordering = asyncio.create_task(order())
        await asyncio.to_thread(held.wait, 20.0)
        assert len(simulators.machines("simulated")) == before + 1
        assert done == []
        held.release()
        await ordering

    asyncio.run(both())
    assert len(done) == 1


def test_a_running_machine_is_a_ready_node_with_gpus_until_it_is_gone(full_control_plane, full_kubectl, eventually):
    with Simulators("one machine") as street, NodeRegistrar(street, full_control_plane.admin):
        made = rented(street, "simulated", "estate-1")

        def ready() -> str:
            path = 'jsonpath={.status.conditions[?(@.type=="Ready")].status}'
            return full_kubectl("get", "node", "estate-1", "--ignore-not-found", "-o", path).strip()

        eventually(lambda: ready() == "True")
        node = full_kubectl.json("get", "node", "estate-1")
        assert node["spec"]["providerID"] == f"tgp://simulated/{TOKEN}"
        assert node["status"]["allocatable"][GPU] == "1"

        street.look(lambda api: _end(api.simulators["simulated"].fleet, made.id))

        eventually(lambda: ready() == "Unknown")
    full_kubectl("delete", "node", "estate-1")


def _end(fleet: Fleet, machine_id: str) -> None:
    fleet.end(fleet.machines[machine_id])


def test_every_way_to_boot_is_among_the_providers():
    """Or the walk below would say nothing about one of them."""
    assert {mode for provider in PROVIDERS.values() for mode in provider.boots} == set(BootMode)
