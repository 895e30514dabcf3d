"""Paperspace, API v1."""

import json
from collections.abc import Iterable
from typing import Any

from tests.contracts.clouds.provider import WORDS, Provider
from tgp.adapters.clouds.paperspace import FACTS, build
from tgp.adapters.clouds.paperspace.errors import CODES
from tgp.sim.clouds.paperspace import simulator


def _machines(answer: Any) -> list[dict[str, Any]]:
    return answer.get("items", [answer])


def _types(answer: Any) -> Iterable[tuple[Any, Any]]:
    """The API names no GPU: machine types that a template fits stand for them."""
    return [(each, "machineTypeLabel") for template in answer["items"] for each in template["availableMachineTypes"]]


def _own_words(status: int) -> bytes:
    return json.dumps({"code": CODES.get(status, "BAD_REQUEST"), "message": WORDS}).encode()


PROVIDER = Provider(
    facts=FACTS,
    tells_prices=False,
    simulator=simulator,
    build=build,
    tells_balance=False,
    page_rows=120,
    page_parameter="limit",
    offer_rows=2,
    end_page=lambda page: page.update(hasMore=False, nextPage=None),
    own_tags=("name",),
    token_fields=1,  # the name: there are no tags
    gpu_slots=_types,
    state_slots=lambda answer: [(machine, "state") for machine in _machines(answer)],
    name_slots=lambda answer: [(machine, "name") for machine in _machines(answer)],
    own_words=_own_words,
)
