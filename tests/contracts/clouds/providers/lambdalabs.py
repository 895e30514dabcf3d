"""Lambda Labs: no pages, no creation time, no account id, and an SSH key that every launch must name."""

import json
from collections.abc import Iterable
from typing import Any

from tests.contracts.clouds.provider import WORDS, Provider
from tgp.adapters.clouds.lambdalabs import FACTS, build
from tgp.api.nodeclass import ProviderSettings
from tgp.sim.clouds.lambdalabs import SSH_KEY_NAME, simulator


def _settings(url: str) -> ProviderSettings:
    return ProviderSettings(endpoint=url, ssh_key_name=SSH_KEY_NAME)


def _types(answer: Any, field: str) -> Iterable[tuple[Any, Any]]:
    return ((item["instance_type"], field) for item in answer["data"].values())


def _machines(answer: Any) -> list[Any]:
    return answer["data"] if isinstance(answer["data"], list) else [answer["data"]]


def _names(answer: Any) -> Iterable[tuple[Any, Any]]:
    for row in _machines(answer):
        yield row, "name"
        yield from ((tag, "value") for tag in row.get("tags", ()) if tag["key"] == "tgp-token")


def _own_words(_status: int) -> bytes:
    return json.dumps({"error": {"code": "global/invalid-parameters", "message": WORDS}}).encode()


PROVIDER = Provider(
    facts=FACTS,
    judge="lambda-ai-cloud-api-client 2.4.1",
    tells_creation=False,
    simulator=simulator,
    build=build,
    exempt={
        "status: a stopped machine is ours and not gone": "Lambda has no stopped machines: they run or they are over",
    },
    settings=_settings,
    names_account=False,
    tells_balance=False,
    own_tags=("tgp-token", "tgp-created"),
    token_fields=2,  # name and tag
    price_slots=lambda answer: _types(answer, "price_cents_per_hour"),
    gpu_slots=lambda answer: _types(answer, "gpu_description"),
    state_slots=lambda answer: ((row, "status") for row in _machines(answer)),
    name_slots=_names,
    own_words=_own_words,
)
