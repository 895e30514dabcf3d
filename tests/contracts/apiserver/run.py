"""Running cases against one server, and saying where two servers' answers part."""

import asyncio
import difflib
import json
import traceback
from collections.abc import Sequence
from dataclasses import dataclass

from tests.contracts.apiserver.api import Api, Json, Server
from tests.contracts.apiserver.kinds import PLAIN, WIDGET, definitions
from tests.contracts.apiserver.normal import normal
from tests.contracts.apiserver.suite import Case
from tgp.api.crds import crds
from tgp.api.resource import (
    CUSTOM_RESOURCE_DEFINITION,
    GPU_NODE_CLASS,
    GPU_NODE_POOL,
    GPU_REQUEST,
    GPU_WORKLOAD_BUDGET,
    NAMESPACE,
    SERVICE_ACCOUNT,
)
from tgp.ports.http import Http

KINDS = (WIDGET, PLAIN, GPU_NODE_CLASS, GPU_NODE_POOL, GPU_REQUEST, GPU_WORKLOAD_BUDGET)  # all must be served
CASE_BOUND_S = 90.0  # a case that takes longer is stuck
MAX_SHOWN_LINES = 120  # of one case's difference


@dataclass(frozen=True, slots=True)
class Host:
    """A server under test."""

    http: Http
    server: Server
    at_once: int  # cases side by side


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one case saw on one server."""

    notes: list[Json]
    failure: str  # empty: every fact it asserts held


async def prepare(host: Host) -> None:
    """Put up the suite's own kinds and the operator's, and wait until they are served."""
    api = Api(host.http, "default", host.server)
    for definition in [*definitions(), *crds(legacy=True)]:
        answer = await api.create(CUSTOM_RESOURCE_DEFINITION, definition)
        assert answer.status == 201, answer.body

    async def served(quiet: Api) -> bool:
        lists = [await quiet.list(resource, everywhere=True) for resource in KINDS]
        return all(one.status == 200 for one in lists)

    await api.eventually(served)


async def run(host: Host, cases: Sequence[Case]) -> dict[str, Outcome]:
    """Each case's outcome by its name: side by side, then those that must be alone."""
    places = asyncio.Semaphore(host.at_once)

    async def one(case: Case) -> Outcome:
        async with places:
            return await _one(host, case)

    together = [case for case in cases if not case.alone]
    outcomes = dict(zip((case.name for case in together), await asyncio.gather(*map(one, together)), strict=True))
    for case in cases:
        if case.alone:
            outcomes[case.name] = await _one(host, case)
    return outcomes


async def _one(host: Host, case: Case) -> Outcome:
    api = Api(host.http, case.namespace, host.server)
    # gather returns whatever went wrong as a value: an outcome to report, not a reason to stop the others.
    (result,) = await asyncio.gather(_script(api, case), return_exceptions=True)
    failure = "" if result is None else "".join(traceback.format_exception(result, limit=-3))
    return Outcome(normal(api.notes), failure)


async def _script(api: Api, case: Case) -> None:
    async with asyncio.timeout(CASE_BOUND_S):
        quiet = api.quiet
        made = await quiet.create(NAMESPACE, {"metadata": {"name": case.namespace}})
        assert made.status == 201, made.body
        await quiet.create(SERVICE_ACCOUNT, {"metadata": {"name": "default"}})
        await case.script(api)


def difference(real: Outcome, other: Outcome) -> str:
    """Where the two part, for a person to read; empty: nowhere."""
    parts = []
    if other.failure:
        parts.append(f"failed: {other.failure}")
    if real.notes != other.notes:
        ours, theirs = _lines(real.notes), _lines(other.notes)
        shown = list(difflib.unified_diff(ours, theirs, "the real server", "the other", lineterm="", n=4))
        parts += shown[:MAX_SHOWN_LINES]
    return "\n".join(parts)


def _lines(notes: list[Json]) -> list[str]:
    return json.dumps(notes, indent=1, sort_keys=True).splitlines()
