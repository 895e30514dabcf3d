"""RunPod, REST v2."""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tests.contracts.clouds.provider import WORDS, Provider
from tgp.adapters.clouds.runpod import FACTS, build
from tgp.ports.clock import Clock
from tgp.ports.cloud import Container, LaunchOrder
from tgp.sim.clouds.cloud_faults import CloudVerb
from tgp.sim.clouds.runpod import simulator
from tgp.sim.clouds.runpod.server import RunPodSimulator

IMAGE = Container("docker.io/library/ubuntu:24.04")
PAGE_ROWS = 2  # so that every list of the suite has pages


def _simulator(clock: Clock, seed: int | str) -> RunPodSimulator:
    made = simulator(clock, seed)
    made.page_rows = PAGE_ROWS
    return made


def _complete(order: LaunchOrder) -> LaunchOrder:
    return replace(order, container=IMAGE)


def _pods(answer: Any) -> list[dict[str, Any]]:
    return answer.get("pods", [answer])


def _prices(answer: Any) -> Iterable[tuple[Any, Any]]:
    return [(gpu["price"], "secure") for gpu in answer["gpus"]]


def _own_words(status: int) -> bytes:
    return json.dumps({"title": "Refused", "detail": WORDS, "status": status}).encode()


PROVIDER = Provider(
    facts=FACTS,
    judge="@runpod/mcp-server 4.0.0",
    simulator=_simulator,
    build=build,
    complete=_complete,
    names_account=False,
    tells_balance=False,
    account_by=CloudVerb.LIST,  # v2 has no endpoint that names an account
    page_rows=PAGE_ROWS,
    page_parameter="limit",
    end_page=lambda page: page.update(pagination={"nextCursor": None, "hasNextPage": False}),
    own_tags=("TGP_TOKEN",),
    token_fields=2,  # name and variable
    price_slots=_prices,
    gpu_slots=lambda answer: [(gpu, "id") for gpu in answer["gpus"]],
    state_slots=lambda answer: [(pod, "status") for pod in _pods(answer)],
    name_slots=lambda answer: [(pod, "name") for pod in _pods(answer)],
    own_words=_own_words,
)
