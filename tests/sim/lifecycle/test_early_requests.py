"""GPURequests in the shapes of the early days, as they were written: each walks a whole life."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.sim.an_operator import ALONE, a_class, create, operator_main
from tests.sim.lifecycle.a_world import SimEnv, sim_env
from tgp.api.resource import EVENT, GPU_REQUEST
from tgp.core.model.offer import CONTAINER_ONLY

EARLY = Path(__file__).parents[2] / "contracts" / "kinds" / "early"
REQUESTS = sorted(path.stem for path in EARLY.glob("request-*.yaml"))


def read(name: str) -> dict[str, Any]:
    return YAML(typ="safe", pure=True).load((EARLY / f"{name}.yaml").read_text(encoding="utf-8"))


def apply(env: SimEnv, manifest: dict[str, Any]) -> str:
    name = manifest["metadata"]["name"]
    create(env.world, GPU_REQUEST, name, manifest["metadata"]["namespace"], spec=manifest["spec"])
    return name


def test_every_early_shape_has_its_life_below():
    assert REQUESTS == ["request-tailscale", "request-wireguard"]


def test_any_provider_will_do_and_the_operators_keys_are_the_class():
    """The shape of the move to Tailscale names no provider and no class; it may live for a day."""
    with sim_env("early tailscale", "vultr", "lambdalabs") as env:
        env.world.process("operator", operator_main(ALONE))
        name = apply(env, read("request-tailscale"))
        env.until(lambda: env.phase(name) == "Ready")
        assert len(env.living()) == 1
        env.works(run_for="10m")
        env.until(env.running_pods)
        env.world.run(minutes=1)
        status = env.request(name)["status"]
        begun, ends = (datetime.fromisoformat(status[each]) for each in ("provisionedAt", "terminationScheduledAt"))
        assert timedelta(hours=23, minutes=55) < ends - begun <= timedelta(hours=24), "in use: until it is a day old"

        env.until(lambda: env.phase(name) == "Finished")
        assert env.living() == []
        assert env.nodes() == []
        assert env.condition("Ended", name)[1] == "Idle"


def test_one_provider_on_spot_with_an_inline_tunnel_goes_when_it_is_idle():
    """The shape of the first design, at a provider whose machines can boot Talos."""
    with sim_env("early wireguard", "simulated") as env:
        a_class(env.world, "rented", instanceRequirements={"spotAllowed": True})
        env.world.process("operator", operator_main(ALONE))
        manifest = read("request-wireguard")
        manifest["spec"] |= {"provider": "simulated", "region": "eu-north"}
        name = apply(env, manifest)
        env.until(lambda: env.phase(name) == "Ready")
        (machine,) = env.living()

        assert machine.charged_microusd <= 450_000
        assert env.condition("MeshConfigIgnored", name)[:2] == ("True", "AnotherMesh"), "its tunnel is not read"
        told = [event["reason"] for event in env.world.api.local_api.objects(EVENT)]
        assert told.count("AnotherMesh") == 1
        env.until(lambda: env.phase(name) == "Finished", minutes=60)
        assert env.living() == []
        assert env.nodes() == []
        assert env.condition("Ended", name)[1] == "Idle"


@pytest.mark.parametrize("policy", ["Takeover", "Any"])
def test_a_provider_that_cannot_boot_talos_is_not_paid_and_the_request_says_so(policy):
    """The same manifest as it was written, for Vast: nothing is bought, whatever the class allows, and it says why."""
    with sim_env("early wireguard 2", "vast") as env:
        spot = {"spotAllowed": True}
        a_class(env.world, "rented", providers=[{"name": "vast"}], bootPolicy=policy, instanceRequirements=spot)
        env.world.process("operator", operator_main(ALONE))
        name = apply(env, read("request-wireguard"))
        env.world.run(minutes=30)

        assert env.phase(name) == "Pending"
        assert env.living() == []
        assert CONTAINER_ONLY in env.condition("Launched", name)[2]
