"""schemathesis asks the operator's HTTP API what its OpenAPI document allows, and what it does not."""

import asyncio
import itertools
import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.amounts import PROVING, amount
from tests.sim.test_access import allow
from tests.sim.test_http_api import Served, a_served_world
from tgp.adapters.http.serve import ServerLimits, listen
from tgp.core.access.token import TOKEN_HEADER
from tgp.ports.http import Call, Reply
from tools.clients import client_environment

EXAMPLES = amount(3, 200, "TGP_API_EXAMPLES")  # for each page
PHASES = "examples,coverage,fuzzing" if PROVING else "fuzzing"
BOUND_S = amount(300, 3600)
CHECKS = (  # those that an API which is only read can be held to
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
    "ignored_auth",
)
DOCUMENTS = {"nonResourceURLs": ["/openapi.json", "/metrics"], "verbs": ["get"]}


@dataclass
class Counting:
    """The gate of an operator in virtual time, behind the real server."""

    served: Served
    thread: ThreadPoolExecutor  # all of that world happens in one thread
    known: Counter[int] = field(default_factory=Counter)  # status codes, of calls with a token
    unknown: Counter[int] = field(default_factory=Counter)  # without
    addresses: Iterator[int] = field(default_factory=itertools.count)

    async def handle(self, call: Call) -> Reply:
        address = next(self.addresses)  # the limit of requests per address is another test's
        mine = replace(call, peer=f"10.{address >> 16 & 255}.{address >> 8 & 255}.{address & 255}")
        gate = self.served.replica.operator.https.gate
        loop = asyncio.get_running_loop()
        reply = await loop.run_in_executor(self.thread, lambda: self.served.world.until(gate.handle(mine)))
        sent = call.header(TOKEN_HEADER) or call.header("Authorization").removeprefix("Bearer ")
        counted = self.known if sent == self.served.token else self.unknown
        counted[reply.status] += 1
        return reply


@pytest.fixture(scope="module")
def program() -> Path:
    return client_environment("schemathesis", "schemathesis==4.32.5") / "bin" / "schemathesis"


async def run(program: Path, home: Path, url: str, token: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        program,
        "run",
        f"{url}/openapi.json",
        f"--header=Authorization:Bearer {token}",
        f"--checks={','.join(CHECKS)}",
        f"--phases={PHASES}",
        f"--max-examples={EXAMPLES}",
        "--seed=1",
        "--workers=1",
        "--no-color",
        "--continue-on-failure",
        "--suppress-health-check=all",
        "--warnings=off",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "COLUMNS": "200"},
        cwd=home,
    )
    try:
        async with asyncio.timeout(BOUND_S):
            out, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    return process.returncode or 0, out.decode()


def test_what_the_document_allows_is_answered_and_nothing_else(program, tmp_path):
    """No 5xx, no answer without a token, no answer that the document does not describe."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        world = a_served_world()
        served = thread.submit(world.__enter__).result()
        try:
            thread.submit(allow, served.world, "reads-documents", DOCUMENTS).result()
            counting = Counting(served, thread)

            async def ask() -> tuple[int, str]:
                listening = await listen(counting.handle, limits=ServerLimits(max_request_bytes=64 << 10))
                try:
                    return await run(program, tmp_path, listening.url, served.token)
                finally:
                    await listening.stop()

            code, said = asyncio.run(ask())
        finally:
            thread.submit(world.__exit__, None, None, None).result()
    assert code == 0, said
    assert {status for status in counting.known if status >= 500} == set()
    assert set(counting.unknown) <= {401, 400}, "400: not an HTTP request at all"
    assert counting.known[200] >= EXAMPLES
    assert counting.known[400] >= EXAMPLES
    assert counting.unknown[401] >= 1
