"""A workbench: the adapter, a receiver whose answers a test writes, and a record of everything that was dialled."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Any

import msgspec

from tgp.adapters.clouds.context import AdapterContext
from tgp.adapters.clouds.webhook.client import WebhookCloud
from tgp.api.common import SecretKeyRef
from tgp.api.nodeclass import ProviderSettings
from tgp.api.owned_machine import PowerMachine
from tgp.core.classes.power_hosts import STRICT, HostRules
from tgp.core.model.offer import BootMode, Offer
from tgp.core.model.secret import Secret
from tgp.ports.cloud import LaunchOrder
from tgp.ports.http import Call, Http, NeverLeft, NoAnswer, Reply, Stream
from tgp.sim.entropy import SeededEntropy
from tgp.sim.resolver import TableResolver

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
TOKEN = "tgp-c0ffee0123-00000000000000000000000000000001-1"
OTHER_TOKEN = "tgp-c0ffee0123-00000000000000000000000000000002-1"
HEADERS = SecretKeyRef(name="power", key="headers")
SIGNING = SecretKeyRef(name="power", key="signing")
SIGNING_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

Answer = Reply | Exception
Answers = Callable[[Call], Answer] | Answer


class HandClock:
    """Moved by hand."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.seconds - 1_000.0)

    def boottime(self) -> float:
        return self.seconds


@dataclass
class Line:
    """One dialled way; asks the bench what to answer."""

    bench: "Bench"
    base_url: str
    address: str

    async def send(self, call: Call) -> Reply:
        if self.address in self.bench.dead:
            raise NeverLeft(f"{self.address} is down")
        self.bench.calls.append((f"{self.base_url}{call.path}", call))
        answers = self.bench.answers.get(call.path.rpartition("/")[2], Reply(404))
        answer = answers(call) if callable(answers) else answers
        if isinstance(answer, Exception):
            raise answer
        return answer

    def stream(self, call: Call, *, idle: timedelta) -> AbstractAsyncContextManager[Stream]:
        raise AssertionError(f"nothing is streamed: {call} {idle}")


@dataclass
class Bench:
    answers: dict[str, Answers] = field(default_factory=dict)  # by the last part of the path
    resolver: TableResolver = field(default_factory=lambda: TableResolver({"power-api": (ip_address("10.0.0.7"),)}))
    hosts: HostRules = STRICT
    secrets: dict[tuple[str, str], Secret] = field(default_factory=dict)
    clock: HandClock = field(default_factory=HandClock)
    dialled: list[tuple[str, str]] = field(default_factory=list)  # base URL, address
    calls: list[tuple[str, Call]] = field(default_factory=list)
    dead: tuple[str, ...] = ()  # addresses without an answer

    def dial(self, base_url: str, *, address: str = "") -> Http:
        self.dialled.append((base_url, address))
        return Line(self, base_url, address)

    def cloud(self, *machines: PowerMachine, **settings: Any) -> WebhookCloud:
        return WebhookCloud(
            AdapterContext(
                dial=self.dial,
                clock=self.clock,
                entropy=SeededEntropy(1, "bench"),
                resolver=self.resolver,
                settings=ProviderSettings(machines=machines or (a_machine(),), **settings),
                secrets=self.secrets,
                hosts=self.hosts,
            )
        )

    @property
    def paths(self) -> list[str]:
        return [f"{call.method} {call.path}" for _, call in self.calls]


def a_machine(name: str = "box-1", **changes: Any) -> PowerMachine:
    """One that can be asked."""
    usual: dict[str, Any] = {
        "name": name,
        "gpu_count": 4,
        "scale_up_endpoint": f"http://power-api/{name}/on",
        "scale_down_endpoint": f"http://power-api/{name}/off",
        "status_endpoint": f"http://power-api/{name}/status",
    }
    return PowerMachine(**usual | changes)


def an_offer(name: str = "box-1") -> Offer:
    return Offer(
        provider="webhook",
        sku=name,
        place="owned",
        gpu="unknown",
        gpu_count=4,
        gpu_memory_gib=0,
        vcpus=0,
        memory_gib=0,
        disk_gib=0,
        hourly_microusd=4,
        boot=BootMode.POWER,
    )


def an_order(name: str = "box-1", token: str = TOKEN, **changes: Any) -> LaunchOrder:
    return LaunchOrder(an_offer(name), token, max_hourly_microusd=1_000_000, **changes)


def said(status: int = 200, headers: tuple[tuple[str, str], ...] = (), **body: Any) -> Reply:
    return Reply(status, msgspec.json.encode(body), (("Content-Type", "application/json"), *headers))


def instance(name: str = "box-1", token: str = TOKEN) -> str:
    return f"{name}:{token}"


SILENCE = NoAnswer("it left, and no answer came")
