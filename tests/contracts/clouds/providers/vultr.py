"""Vultr: lists in pages, errors without codes, plans that are a slice of a card, no price on a machine."""

from collections.abc import Iterable
from typing import Any

from tests.contracts.clouds.provider import Provider
from tgp.adapters.clouds.vultr import FACTS, build
from tgp.adapters.clouds.vultr.paging import PER_PAGE
from tgp.sim.clouds.cloud_faults import CloudVerb
from tgp.sim.clouds.vultr import simulator


def _plans(answer: Any, field: str) -> Iterable[tuple[Any, Any]]:
    return ((row, field) for row in answer["plans"])


def _machines(answer: Any) -> list[Any]:
    return answer["instances"] if "instances" in answer else [answer["instance"]]


def _names(answer: Any) -> Iterable[tuple[Any, Any]]:
    for row in _machines(answer):
        yield row, "label"
        yield from ((row["tags"], place) for place, tag in enumerate(row["tags"]) if tag.startswith("tgp-"))


PROVIDER = Provider(
    facts=FACTS,
    judge="vultr-python-client 1.0.1",
    simulator=simulator,
    build=build,
    exempt={
        "check: an empty balance cannot buy": "Vultr bills after use: an account without credit can buy",
        "status: a machine that was terminated is on its way out, and then absent": (
            "Vultr has no word for a machine on its way out: it is there, and then it is not"
        ),
    },
    page_rows=PER_PAGE,
    page_parameter="per_page",
    offer_rows=5,
    end_page=lambda page: page["meta"]["links"].update(next=""),
    count_page=lambda page: page["meta"].update(
        total=sum(len(rows) for rows in page.values() if isinstance(rows, list))
    ),
    askings={CloudVerb.OFFERS: 2},  # shared plans and dedicated ones
    own_tags=("tgp-token",),
    token_fields=2,  # label and tag
    price_slots=lambda answer: _plans(answer, "hourly_cost"),
    gpu_slots=lambda answer: ((row, "gpu_type" if "gpu_type" in row else "type") for row in answer["plans"]),
    state_slots=lambda answer: ((row, "status") for row in _machines(answer)),
    name_slots=_names,
)
