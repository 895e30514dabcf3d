"""Karpenter's solver, as a program of its own: the case goes in as JSON, the machines come out."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from bench.karpenter.cases import CPU, MICRO, Answer, Case, Machine, MachineType, Manifest
from tools.toolbox.module import GoModule, build_module

SOLVER = GoModule("bench-karpenter", Path(__file__).parent / "solver", go="1.26.9")
BOUND_S = 1800  # 20,000 pods take it some minutes


class SolverFailed(Exception):
    """Its own words."""


def solver(say: Callable[[str], None]) -> Path:
    return build_module(SOLVER, say) / "karpenter"


def their_plan(program: Path, case: Case) -> Answer:
    """Seconds of its Solve alone: by the clock or on all processors, whichever is less."""
    question = {"types": [_written(each) for each in case.types], "pods": case.pods, "taints": case.taints}
    ended = subprocess.run(
        [program], input=json.dumps(question), capture_output=True, text=True, timeout=BOUND_S, check=False
    )
    if ended.returncode != 0:
        raise SolverFailed(ended.stderr)
    found = json.loads(ended.stdout)
    machines = tuple(
        Machine(claim["type"], claim["zone"], round(claim["price"] * MICRO), tuple(claim["pods"]))
        for claim in found["claims"] or ()
    )
    return Answer(machines, min(found["seconds"], found["cpuSeconds"]), found["errors"])


def _written(each: MachineType) -> Manifest:
    offerings = [
        {"zone": zone, "capacityType": "spot" if each.spot else "on-demand", "price": each.microusd / MICRO}
        for zone in each.zones
    ]
    return {
        "name": each.name,
        "capacity": {name: _quantity(name, amount) for name, amount in each.capacity.items()},
        "reserved": {name: _quantity(name, amount) for name, amount in each.reserved.items()},
        "labels": each.labels,
        "offerings": offerings,
    }


def _quantity(name: str, amount: int) -> str:
    return f"{amount}m" if name == CPU else str(amount)
