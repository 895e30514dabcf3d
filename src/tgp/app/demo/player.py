"""Carries out the scenario. Objects that the user of the demo changed or deleted are respected."""

import asyncio
from collections import deque
from contextlib import suppress
from random import Random
from typing import Any, assert_never

from tgp.api.resource import DEPLOYMENT, GPU_NODE_CLASS, GPU_NODE_POOL, GPU_REQUEST, JOB, SECRET, Resource
from tgp.app.demo.fixtures import FIELD_MANAGER, NAMESPACE
from tgp.app.demo.machines import GPU, OWNED_MACHINES, REBOOTED
from tgp.app.demo.market import EmbeddedMarket
from tgp.app.demo.scenario import (
    ChangeImage,
    DeleteOwnRequest,
    GainPower,
    LosePower,
    LoseSpot,
    Rent,
    ScaleService,
    StartJob,
    Step,
    SupplyKeys,
    Suspend,
    WantGpus,
    WithdrawKeys,
    describe,
    plan,
)
from tgp.core.model.class_secrets import OPERATOR_SECRET
from tgp.interfaces.terminal.snapshot import ScenarioLine
from tgp.ports.clock import Clock
from tgp.sim.apiserver import ApiServer
from tgp.sim.apiserver.status_errors import Failure
from tgp.sim.cluster.control_plane import ControlPlane
from tgp.sim.cluster.kubelet import EXIT_CODE, RUN_FOR

KEPT_FOR = 1800  # seconds that a finished Job stays
GIVEN_UP_AFTER = 3 * 3600  # seconds that a Job waits for a GPU
MINUTE = 60.0
LINES_KEPT = 20  # more than happens between two frames
ANY_PROVIDER_CLASS = "anywhere"  # buys from every provider that boots Talos
NOT_A_KEY = "no-key-of-this-world"


class ScenarioPlayer:
    def __init__(self, server: ApiServer, cluster: ControlPlane, market: EmbeddedMarket, clock: Clock) -> None:
        self.scenario_lines: deque[ScenarioLine] = deque(maxlen=LINES_KEPT)  # what was done, oldest first
        self._clock = clock
        self._user = server.local_api.as_manager(FIELD_MANAGER)
        self._cluster = cluster
        self._market = market
        self._without_power: set[str] = set()  # machines that are off since a power cut

    async def play(self, rng: Random) -> None:
        """Until cancelled. A step that the API server refuses (the object is gone, for example) is skipped."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        for minute, step in plan(rng):
            await asyncio.sleep(max(began + minute * MINUTE - loop.time(), 0.0))
            with suppress(Failure):
                if self.take(step):
                    self.scenario_lines.append(ScenarioLine(self._clock.now(), describe(step)))

    def take(self, step: Step) -> bool:
        """False: there was nothing to do."""
        match step:
            case SupplyKeys(keys):
                supplied = {key: self._market.key(key) or NOT_A_KEY for key in keys}
                return self._change(SECRET, NAMESPACE, OPERATOR_SECRET, {"stringData": supplied})
            case WithdrawKeys(keys, _):
                return self._change(SECRET, NAMESPACE, OPERATOR_SECRET, {"data": dict.fromkeys(keys)})
            case WantGpus(namespace, pool, models):
                wanted = {"key": "tgp.io/gpu-type", "operator": "In", "values": list(models)}
                change = {"spec": {"template": {"spec": {"requirements": [wanted]}}}}
                return self._change(GPU_NODE_POOL, namespace, pool, change)
            case Suspend(node_class, suspended):
                return self._change(GPU_NODE_CLASS, "", node_class, {"spec": {"suspend": suspended}})
            case StartJob():
                self._user.create(JOB, _job(step))
            case LosePower(machine, _):
                return self._lose_power(machine)
            case GainPower(machine):
                return self._gain_power(machine)
            case Rent():
                self._user.create(GPU_REQUEST, _request(step))
            case DeleteOwnRequest(namespace, name):
                if self._user.get(GPU_REQUEST, namespace, name) is None:
                    return False
                self._user.delete(GPU_REQUEST, namespace, name)
            case ScaleService(namespace, name, replicas):
                return self._change(DEPLOYMENT, namespace, name, {"spec": {"replicas": replicas}})
            case LoseSpot():
                return self._lose_spot()
            case ChangeImage(node_class, image):
                return self._change(GPU_NODE_CLASS, "", node_class, {"spec": {"talosConfig": {"image": image}}})
            case _:
                assert_never(step)
        return True

    def _lose_power(self, machine: str) -> bool:
        """A machine that is off has none to lose."""
        if machine not in self._cluster.machines.names():
            return False
        self._without_power.add(machine)
        if machine in OWNED_MACHINES:
            self._market.power.lose_power(machine)
        else:
            self._cluster.power_off(machine)
        return True

    def _gain_power(self, machine: str) -> bool:
        """What was on goes on by itself; an owned machine that was ordered meanwhile is on already."""
        lost = machine in self._without_power
        self._without_power.discard(machine)
        if not lost or (machine in OWNED_MACHINES and self._market.power.is_on(machine)):
            return False
        if machine in OWNED_MACHINES:
            self._market.power.switch_on_by_hand(machine)
        else:
            self._cluster.power_on(REBOOTED[machine])
        return True

    def _lose_spot(self) -> bool:
        fleets = [simulator.fleet for simulator in self._market.admin.simulators.values()]
        found = [
            (machine.created_at, machine.id, fleet) for fleet in fleets for machine in fleet.living() if machine.spot
        ]
        if not found:
            return False
        _, name, fleet = max(found, key=lambda each: each[:2])
        fleet.interrupt(fleet.machines[name], fleet.advance())
        return True

    def _change(self, resource: Resource, namespace: str, name: str, change: dict[str, Any]) -> bool:
        there = self._user.get(resource, namespace, name) is not None
        if there:
            self._user.merge_patch(resource, namespace, name, change)
        return there


def _request(step: Rent) -> dict[str, Any]:
    spec = {
        "nodeClassRef": {"name": ANY_PROVIDER_CLASS},
        "gpuType": step.gpu,
        "maxHourlyPrice": step.price,
        "idleTimeout": step.idle,
        "maxLifetime": step.life,
        "spot": step.spot,
    }
    return {
        "apiVersion": GPU_REQUEST.api_version,
        "kind": GPU_REQUEST.kind,
        "metadata": {"name": step.name, "namespace": step.namespace},
        "spec": spec,
    }


def _job(step: StartJob) -> dict[str, Any]:
    labels = {"team": step.team, "app": step.name}
    behaviour = {RUN_FOR: f"{step.minutes}m", EXIT_CODE: "1" if step.fails else "0"}
    container = {
        "name": "work",
        "image": "ghcr.io/example/trainer:1.8.0",
        "resources": {"requests": {"cpu": "2", "memory": "8Gi"}, "limits": {GPU: step.gpus}},
    }
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {"name": step.name, "namespace": step.namespace, "labels": labels},
        "spec": {
            "parallelism": step.pods,
            "completions": step.pods,
            "backoffLimit": 1,
            "activeDeadlineSeconds": GIVEN_UP_AFTER,
            "ttlSecondsAfterFinished": KEPT_FOR,
            "template": {
                "metadata": {"labels": labels, "annotations": behaviour},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [container],
                    "tolerations": [{"key": "tgp.io/ephemeral", "operator": "Exists"}],  # may run on rented machines
                },
            },
        },
    }
