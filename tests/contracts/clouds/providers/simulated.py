"""The reference adapter keeps every promise: nothing is exempt."""

import json
from collections.abc import Iterable
from typing import Any

from tests.contracts.clouds.provider import WORDS, Provider
from tgp.adapters.clouds.simulated import FACTS, build
from tgp.sim.clouds.simulated import simulator


def _offers(answer: Any, field: str) -> Iterable[tuple[Any, Any]]:
    return ((row, field) for row in answer["offers"])


def _machines(answer: Any, field: str) -> Iterable[tuple[Any, Any]]:
    rows = answer["machines"] if "machines" in answer else [answer["machine"]]
    return ((row, field) for row in rows)


def _own_words(status: int) -> bytes:
    code = {402: "no_balance", 409: "sold_out"}.get(status, "bad_order")
    return json.dumps({"error": {"code": code, "message": WORDS}}).encode()


PROVIDER = Provider(
    facts=FACTS,
    simulator=simulator,
    build=build,
    page_rows=100,
    page_parameter="limit",
    end_page=lambda page: page.update(next=None),
    own_tags=("tgp-token",),
    token_fields=2,  # name and tag
    price_slots=lambda answer: _offers(answer, "usd_per_hour"),
    gpu_slots=lambda answer: _offers(answer, "gpu"),
    state_slots=lambda answer: _machines(answer, "state"),
    name_slots=lambda answer: _machines(answer, "name"),
    announces_ends=True,
    own_words=_own_words,
)
