"""How many hours of virtual time pass in a second, with one whole operator in them."""

import argparse
import time
from itertools import cycle
from typing import Any

from tgp.api.crds import crds
from tgp.api.resource import (
    CUSTOM_RESOURCE_DEFINITION,
    GPU_NODE_CLASS,
    GPU_NODE_POOL,
    GPU_REQUEST,
    GPU_WORKLOAD_BUDGET,
    NAMESPACE,
    Resource,
)
from tgp.app.deps import Environment
from tgp.app.operator import Operator
from tgp.app.settings import Settings
from tgp.sim.plain_boot import PlainBoot
from tgp.sim.process import Host
from tgp.sim.world import KUBERNETES, World

OBJECTS = 20  # of each kind
OPERATOR_NAMESPACE = "tgp-system"
SPECS: tuple[tuple[Resource, dict[str, Any]], ...] = (
    (GPU_NODE_CLASS, {"providers": [{"name": "simulated"}], "networking": {"backend": "none"}}),
    (GPU_NODE_POOL, {"nodeClassRef": {"name": "object-0"}}),
    (GPU_REQUEST, {"nodeClassRef": {"name": "object-0"}, "gpuType": "RTX4090"}),
    (
        GPU_WORKLOAD_BUDGET,
        {
            "selector": {"matchLabels": {"team": "a"}},
            "quota": {"gpuHours": 100, "windowHours": 24},
            "enforcement": {"action": "AlertOnly"},
        },
    ),
)


def main(options: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench simulation", description=__doc__)
    parser.add_argument("--hours", type=int, default=12, help="simulated hours that are measured (default: 12)")
    asked = parser.parse_args(options)
    with World("bench") as world:
        _furnish(world)
        world.process("operator", _operator)
        world.run(minutes=5)  # everything is listed, judged and written down
        lines = world.trace.length
        began, cpu = time.perf_counter(), time.process_time()
        _pass(world, minutes=asked.hours * 60)
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
        print(f"{asked.hours} simulated hours, {OBJECTS} objects of each of {len(SPECS)} kinds, a write a minute")
        hourly = (world.trace.length - lines) / asked.hours
        print(f"{took:.2f} s ({cpu:.2f} s of CPU), {hourly:.0f} calls and commits an hour")
    print(f"simulation hours_per_second={asked.hours / took:.2f}")
    return 0


def _furnish(world: World) -> None:
    stage = world.api.local_api
    for crd in crds():
        stage.create(CUSTOM_RESOURCE_DEFINITION, crd)
    stage.create(NAMESPACE, {"metadata": {"name": OPERATOR_NAMESPACE}})
    for resource, spec in SPECS:
        for number in range(OBJECTS):
            meta = {"name": f"object-{number}", **({"namespace": "default"} if resource.namespaced else {})}
            stage.create(
                resource,
                {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta, "spec": spec},
            )


def _pass(world: World, minutes: int) -> None:
    """A person changes one object a minute, each kind in turn."""
    stage = world.api.local_api
    kinds = cycle(resource for resource, _ in SPECS)
    for minute in range(minutes):
        resource = next(kinds)
        name = f"object-{minute // len(SPECS) % OBJECTS}"
        change = {"metadata": {"annotations": {"bench/minute": str(minute)}}}
        stage.merge_patch(resource, "default" if resource.namespaced else "", name, change)
        world.run(minutes=1)


async def _operator(host: Host) -> None:
    outside = Environment(
        host.http(KUBERNETES), host.clock, host.entropy, host.name, OPERATOR_NAMESPACE, host.compute, boot=PlainBoot()
    )
    await Operator(Settings(), outside).run()
