"""Vast.ai: containers and virtual machines of many hosts, on demand and by bids."""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tests.contracts.clouds.provider import WORDS, Provider
from tgp.adapters.clouds.vast import FACTS, build
from tgp.ports.cloud import Container, LaunchOrder
from tgp.sim.clouds.vast import simulator

IMAGE = Container("docker.io/library/ubuntu:24.04")  # started by user data: it takes that or a command


def _complete(order: LaunchOrder) -> LaunchOrder:
    return replace(order, container=IMAGE)


def _prices(answer: Any) -> Iterable[tuple[Any, Any]]:
    return ((row, name) for row in answer["offers"] for name in ("dph_total", "min_bid"))


def _machines(answer: Any) -> list[dict[str, Any]]:
    found = answer["instances"]
    return found if isinstance(found, list) else [found]


def _states(answer: Any) -> Iterable[tuple[Any, Any]]:
    return ((row, "actual_status") for row in _machines(answer))


def _own_words(_status: int) -> bytes:
    return json.dumps({"success": False, "error": "invalid_args", "msg": WORDS}).encode()


PROVIDER = Provider(
    facts=FACTS,
    judge="vastai 1.9.1",
    simulator=simulator,
    build=build,
    complete=_complete,
    page_rows=25,
    page_parameter="limit",
    end_page=lambda page: page.update(next_token=None),
    count_page=lambda page: page.update(total_instances=len(page["instances"])),
    own_tags=("label",),
    token_fields=1,  # the label: there are no tags
    price_slots=_prices,
    gpu_slots=lambda answer: ((row, "gpu_name") for row in answer["offers"]),
    state_slots=_states,
    name_slots=lambda answer: ((row, "label") for row in _machines(answer)),
    announces_ends=True,
    own_words=_own_words,
)
