"""The same reflector on the in-memory API server and on real ones, new and old: list, watch, 410, relist."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from tests.contracts.apiserver.fake import fake_host
from tests.contracts.apiserver.real import real_host
from tests.contracts.apiserver.run import Host
from tests.contracts.reflector.served import Even, Noted
from tgp.adapters.kube.list import ListTarget
from tgp.adapters.kube.records.kinds import metadata_of
from tgp.adapters.kube.reflector import Reflector, State
from tgp.adapters.kube.store import Store
from tgp.adapters.kube.watch import Watch
from tgp.api.resource import CONFIG_MAP
from tgp.core.model.workload import Metadata
from tgp.ports.cluster import Expired
from tgp.ports.http import Call, json_call
from tgp.sim.loop import run as run_in_virtual_time

PATIENCE = 60.0  # seconds; a loaded machine is slow, a broken reflector never gets there


class Counting:
    """An `Http` that remembers what was asked."""

    def __init__(self, host: Host) -> None:
        self._http = host.http
        self.calls: list[Call] = []

    async def send(self, call: Call):
        self.calls.append(call)
        return await self._http.send(call)

    def stream(self, call: Call, *, idle):
        self.calls.append(call)
        return self._http.stream(call, idle=idle)


def subject() -> ListTarget[Metadata]:
    return ListTarget(metadata_of(CONFIG_MAP), namespace="default", label_selector="for=reflector")


@asynccontextmanager
async def reflecting(http: Counting, **options) -> AsyncIterator[tuple[Reflector[Metadata], list[str]]]:
    store: Store[Metadata] = Store(CONFIG_MAP)
    reflector = Reflector(http, subject(), store, Even(), Noted(), **options)
    heard: list[str] = []

    def hear(old: Metadata | None, new: Metadata | None) -> None:
        verb = "came" if old is None else "went" if new is None else "changed"
        heard.append(f"{(old if new is None else new).key.name} {verb}")

    store.subscribe(hear)
    task = asyncio.create_task(reflector.run())
    try:
        yield reflector, heard
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not true():  # noqa: ASYNC110 - there is nothing to wait for but the world
            await asyncio.sleep(0.05)


async def create(host: Host, name: str) -> None:
    manifest = {"metadata": {"name": name, "labels": {"for": "reflector"}}, "data": {"secret": "of no concern"}}
    reply = await host.http.send(json_call("POST", CONFIG_MAP.path("default"), manifest))
    assert reply.status == 201, reply.content


async def touch(host: Host, name: str, value: str) -> None:
    headers = (("Content-Type", "application/merge-patch+json"),)
    body = json.dumps({"data": {"touched": value}}).encode()
    reply = await host.http.send(Call("PATCH", CONFIG_MAP.path("default", name), headers=headers, body=body))
    assert reply.status == 200, reply.content


async def delete(host: Host, name: str) -> None:
    reply = await host.http.send(Call("DELETE", CONFIG_MAP.path("default", name)))
    assert reply.status in {200, 404}, reply.content


async def scenario(host: Host, *, streams: bool) -> None:
    for name in ("a", "b", "c"):
        await delete(host, name)
        await create(host, name)
    http = Counting(host)
    async with reflecting(http) as (reflector, heard):
        await asyncio.wait_for(reflector.store.wait_synced(), PATIENCE)
        assert sorted(heard) == ["a came", "b came", "c came"]
        await until(lambda: reflector.state == State.WATCHING and len(http.calls) >= 2)
        heard.clear()
        await touch(host, "a", "1")
        await create(host, "d")
        await delete(host, "b")
        await until(lambda: len(heard) == 3)
        assert heard == ["a changed", "d came", "b went"]
        assert any(call.parameter("limit") for call in http.calls) is not streams

        heard.clear()
        await asyncio.wait_for(reflector.refreshed(), PATIENCE)
        assert heard == [], "a list that finds nothing new says nothing"
        await delete(host, "d")
        await asyncio.wait_for(reflector.refreshed(), PATIENCE)
        assert heard == ["d went"]

    for name in ("a", "c"):
        await delete(host, name)


def test_on_the_server_in_memory():
    async def on_it() -> None:
        await scenario(fake_host(), streams=True)

    run_in_virtual_time(on_it())


def test_a_version_from_long_ago_is_told_to_be_expired():
    """In memory only: the watch cache of a young real server reaches back to its start, whatever etcd forgot."""

    async def on_it() -> None:
        host = fake_host()
        await create(host, "a")
        await host.server.compact()
        away: Store[Metadata] = Store(CONFIG_MAP)
        away.version = 1
        with pytest.raises(Expired):
            await Watch(host.http, subject(), away).run(0.0)

    run_in_virtual_time(on_it())


def test_on_a_real_server(pytestconfig, control_plane):
    """By stream on a new one; `--kubernetes 1.28` shows the fall back to pages."""
    version = pytestconfig.getoption("--kubernetes")

    async def on_it() -> None:
        async with real_host(control_plane) as host:
            await scenario(host, streams=version != "1.28")

    asyncio.run(on_it())
