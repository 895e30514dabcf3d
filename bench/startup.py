"""How soon the command line answers and the operator acts, and what it weighs when idle."""

import argparse
import asyncio
import compileall
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL
from pathlib import Path

import tgp
from tgp.adapters.clock import SystemClock
from tgp.adapters.entropy import SystemEntropy
from tgp.adapters.http.serve import listen
from tgp.api.crds import crds
from tgp.api.resource import CUSTOM_RESOURCE_DEFINITION, GPU_NODE_CLASS, NAMESPACE
from tgp.sim.apiserver import ApiServer
from tgp.sim.clouds.registry import pretend

WANTED_HELP_MS = 150
WANTED_IDLE_MB = 60
OBJECTS = 20
IDLE_FOR_S = 5.0
PATIENCE_S = 60.0
TGP = Path(sys.executable).with_name("tgp")
PACKAGE = Path(tgp.__file__).parent


def main(options: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench startup", description=__doc__)
    parser.add_argument("--runs", type=int, default=15, help="runs of `tgp --help` (default: 15)")
    asked = parser.parse_args(options)
    help_ms = _help_ms(asked.runs)
    print(
        f"tgp --help                {help_ms:.0f} ms, best of {asked.runs} (wanted: {WANTED_HELP_MS} at most)",
        flush=True,
    )
    compileall.compile_dir(PACKAGE, quiet=1)  # as installed: compiling while starting would take 1 MB
    first_s, idle_mb = asyncio.run(_operator(offers=False))
    _, priced_mb = asyncio.run(_operator(offers=True))
    print(f"first reconcile           {first_s:.2f} s after the process was started, {OBJECTS} classes")
    print(f"idle memory               {idle_mb:.0f} MB resident (wanted: {WANTED_IDLE_MB} at most)")
    print(f"with prices               {priced_mb:.0f} MB resident, after offers were ranked: numpy is loaded then")
    print(
        f"startup help_ms={help_ms:.0f} first_reconcile_s={first_s:.2f} idle_mb={idle_mb:.0f} priced_mb={priced_mb:.0f}"
    )
    return 0


def _help_ms(runs: int) -> float:
    """The best run: others measure the neighbours. The median is shown beside it."""
    lengths = []
    for _ in range(runs + 1):  # the first fills the file cache
        began = time.perf_counter()
        subprocess.run([TGP, "--help"], stdout=DEVNULL, check=True)
        lengths.append((time.perf_counter() - began) * 1000)
    print(f"tgp --help                median {statistics.median(lengths[1:]):.0f} ms", flush=True)
    return min(lengths[1:])


async def _operator(*, offers: bool) -> tuple[float, float]:
    """Seconds to the first condition, and resident megabytes when nothing has happened for a while."""
    provider = await listen(pretend("simulated", SystemClock(), "startup").handle)
    settings = {"settings": {"endpoint": provider.url}} if offers else {}
    server = ApiServer(SystemClock(), SystemEntropy())
    local_api = server.local_api
    for crd in crds():
        local_api.create(CUSTOM_RESOURCE_DEFINITION, crd)
    local_api.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tgp-system"}})
    for number in range(OBJECTS):
        spec = {"providers": [{"name": "simulated", **settings}], "networking": {"backend": "none"}}
        meta = {"name": f"class-{number}"}
        local_api.create(
            GPU_NODE_CLASS, {"apiVersion": "tgp.io/v1", "kind": "GPUNodeClass", "metadata": meta, "spec": spec}
        )
    listening = await listen(server.handle)
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        kubeconfig.write_text(json.dumps(_kubeconfig(listening.url)))
        began = time.perf_counter()
        process = await asyncio.create_subprocess_exec(
            TGP, "operator", "--kubeconfig", kubeconfig, "--listen", "", stdout=DEVNULL, stderr=DEVNULL
        )
        try:
            while not _judged(server):
                assert time.perf_counter() - began < PATIENCE_S, "the operator judged nothing"
                await asyncio.sleep(0.005)
            first = time.perf_counter() - began
            await asyncio.sleep(IDLE_FOR_S)
            return first, _resident_mb(process.pid)
        finally:
            process.kill()
            await process.wait()
            await listening.stop()
            await provider.stop()


def _judged(server: ApiServer) -> bool:
    return any(found.get("status", {}).get("conditions") for found in server.local_api.objects(GPU_NODE_CLASS))


def _kubeconfig(url: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bench",
        "clusters": [{"name": "bench", "cluster": {"server": url}}],
        "users": [{"name": "bench", "user": {}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
    }


def _resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
