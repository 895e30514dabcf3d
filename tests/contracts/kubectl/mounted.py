"""The in-memory API server on a loopback port, in a thread of its own, with a kubeconfig that leads to it."""

import asyncio
import json
from pathlib import Path
from threading import Event, Thread
from typing import Self

from tgp.adapters.clock import SystemClock
from tgp.adapters.entropy import SystemEntropy
from tgp.adapters.http.serve import listen
from tgp.sim.apiserver import ApiServer

START_BOUND_S = 30


class Mounted:
    """Use it with `with`. `kubeconfig` is for its administrator."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.kubeconfig = directory / "kubeconfig"
        self._ready = Event()
        self._thread = Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.Event | None = None
        self.url = ""

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(START_BOUND_S), "the in-memory server did not start"
        self.kubeconfig.write_text(json.dumps(_kubeconfig(self.url)))
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        assert self._over is not None
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(START_BOUND_S)

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        server = ApiServer(SystemClock(), SystemEntropy())
        server.logs = lambda pod, container: f"{container} of {pod['metadata']['name']} starts\nand works\n"
        listening = await listen(server.handle)
        self.url = listening.url
        self._ready.set()
        await self._over.wait()
        await listening.stop()


def _kubeconfig(url: str) -> dict[str, object]:
    name = "memory"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": url}}],
        "users": [{"name": name, "user": {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }
