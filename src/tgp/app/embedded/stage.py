"""Carries out the plan, as people and power cuts would: whatever somebody else changed or removed is respected."""

import asyncio
from collections import deque
from contextlib import suppress
from random import Random
from typing import Any, assert_never

from tgp.api.resource import GPU_NODE_CLASS, GPU_NODE_POOL, GPU_REQUEST, JOB, SECRET, Resource
from tgp.app.embedded.machines import GPU, REBOOTED
from tgp.app.embedded.market import EmbeddedMarket
from tgp.app.embedded.script import (
    GainPower,
    GiveBack,
    LosePower,
    Rent,
    StartJob,
    Step,
    SupplyKeys,
    Suspend,
    WantGpus,
    WithdrawKeys,
    plan,
    story,
)
from tgp.app.embedded.stock import NAMESPACE, PERSON
from tgp.core.rules.secrets import OPERATOR_SECRET
from tgp.ports.clock import Clock
from tgp.sim.apiserver import ApiServer
from tgp.sim.apiserver.status_errors import Failure
from tgp.sim.cluster.control_plane import ControlPlane
from tgp.sim.cluster.kubelet import EXIT_CODE, RUN_FOR
from tgp.surfaces.terminal.scene import Story

KEPT_FOR = 1800  # seconds a finished Job stays to be looked at
GIVEN_UP_AFTER = 3 * 3600  # seconds: who has waited so long for a GPU asks again another day
MINUTE = 60.0
STORIES_KEPT = 20  # more than happens between two looks
WHEREVER = "anywhere"  # the class that rents wherever Talos boots
NOT_A_KEY = "no-key-of-this-world"


class Stage:
    def __init__(self, server: ApiServer, cluster: ControlPlane, market: EmbeddedMarket, clock: Clock) -> None:
        self.stories: deque[Story] = deque(maxlen=STORIES_KEPT)  # what was done, oldest first
        self._clock = clock
        self._people = server.backstage.as_manager(PERSON)
        self._cluster = cluster
        self._market = market

    async def play(self, luck: Random) -> None:
        """Until cancelled. A step that the world refuses (its object is gone, its namespace ends) is left out."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        for minute, step in plan(luck):
            await asyncio.sleep(max(began + minute * MINUTE - loop.time(), 0.0))
            with suppress(Failure):
                if self.take(step):
                    self.stories.append(Story(self._clock.now(), story(step)))

    def take(self, step: Step) -> bool:
        """False: there was nothing left to do."""
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
                self._people.create(JOB, _job(step))
            case LosePower(machine, _):
                if machine not in self._cluster.machines.names():
                    return False
                self._cluster.power_off(machine)
            case GainPower(machine):
                if machine in self._cluster.machines.names():
                    return False
                self._cluster.power_on(REBOOTED[machine])
            case Rent():
                self._people.create(GPU_REQUEST, _request(step))
            case GiveBack(namespace, name):
                if self._people.get(GPU_REQUEST, namespace, name) is None:
                    return False
                self._people.delete(GPU_REQUEST, namespace, name)
            case _:
                assert_never(step)
        return True

    def _change(self, resource: Resource, namespace: str, name: str, change: dict[str, Any]) -> bool:
        there = self._people.get(resource, namespace, name) is not None
        if there:
            self._people.merge_patch(resource, namespace, name, change)
        return there


def _request(step: Rent) -> dict[str, Any]:
    spec = {
        "nodeClassRef": {"name": WHEREVER},
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
                    "tolerations": [{"key": "tgp.io/ephemeral", "operator": "Exists"}],  # rented machines will do
                },
            },
        },
    }
