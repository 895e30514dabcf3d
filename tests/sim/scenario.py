"""A busy, broken hour: workloads, machines that vanish, a client that watches and writes. Prints its trace."""

import asyncio
import sys
from datetime import timedelta

from tests.sim.cluster.manifests import GPU, a_job, a_set, a_template
from tgp.api.resource import DAEMON_SET, DEPLOYMENT, JOB
from tgp.ports.http import Call, HttpError, json_call
from tgp.sim.cluster.machines import Hardware
from tgp.sim.faults import ALL, Faults
from tgp.sim.process import Host
from tgp.sim.world import KUBERNETES, World

SHORT = timedelta(seconds=10)


async def client(host: Host) -> None:
    """Watches pods and writes what it sees, in its own time."""
    api = host.http(KUBERNETES)
    seen: dict[str, int] = {}

    async def watch() -> None:
        while True:
            try:
                call = Call("GET", "/api/v1/pods", (("watch", "true"), ("allowWatchBookmarks", "true")))
                async with api.stream(call, idle=timedelta(seconds=90)) as stream:
                    async for batch in stream.batches():
                        seen["lines"] = seen.get("lines", 0) + len(batch)
            except HttpError:
                seen["broken"] = seen.get("broken", 0) + 1
            await asyncio.sleep(1 + host.entropy.jitter())

    async def write() -> None:
        while True:
            await asyncio.sleep(20 + 20 * host.entropy.jitter())
            name = host.entropy.token(4).hex()
            manifest = {"metadata": {"name": name}, "data": {key: str(value) for key, value in sorted(seen.items())}}
            try:
                await api.send(json_call("POST", "/api/v1/namespaces/default/configmaps", manifest, timeout=SHORT))
            except HttpError:
                continue

    async with asyncio.TaskGroup() as group:
        group.create_task(watch())
        group.create_task(write())


async def careless_client(host: Host) -> None:
    """Lets the order of a set decide: the kind of mistake that hash seeds bring to light."""
    api = host.http(KUBERNETES)
    for name in {"ada", "bob", "cyd", "dan", "eve", "fay", "gus", "hal"}:  # noqa: PLC0208 - a set is the point
        await asyncio.sleep(1)
        manifest = {"metadata": {"name": name}}
        try:
            await api.send(json_call("POST", "/api/v1/namespaces/default/configmaps", manifest, timeout=SHORT))
        except HttpError:
            continue
    await asyncio.Event().wait()


STORMY = ALL.by_index(crash=12.0)


def run(seed: int, main=client, faults: Faults = STORMY) -> World:
    with World(seed, faults=faults) as world:
        for number in range(3):
            world.cluster.power_on(Hardware(f"n{number}", devices={GPU: 2}, registers_after=20.0 + number))
        env = world.api.local_api
        world.process("client", main)
        world.run(minutes=2)
        env.create(DEPLOYMENT, a_set(replicas=4))
        env.create(DAEMON_SET, a_set("daemon", template=a_template({"app": "daemon"})))
        env.create(
            JOB, a_job(completions=6, parallelism=2, template=a_template(run_for="4m", gpus=1, restartPolicy="Never"))
        )
        world.run(minutes=10)
        world.cluster.power_off("n1")
        world.run(minutes=30)
        world.calm()
        world.run(minutes=20)
        return world


if __name__ == "__main__":
    chosen = careless_client if sys.argv[1] == "careless" else client
    print(run(7, chosen).trace.digest())
