"""Google Cloud: prices are from a table, and a machine's name is unique in its zone."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from tests.contracts.clouds.provider import WORDS, Provider
from tgp.adapters.clouds import gcp
from tgp.api.nodeclass import ProviderSettings
from tgp.sim.clouds.gcp import GcpSimulator, simulator
from tgp.sim.clouds.simulator import Simulator


def _settings(url: str) -> ProviderSettings:
    return ProviderSettings(endpoint=url, image="talos-1-11")


def _rows(answer: Any, kind: str) -> Iterator[dict[str, Any]]:
    if isinstance(answer, dict) and isinstance(answer.get("items"), dict):
        for scope in answer["items"].values():
            yield from scope.get(kind, ())


def _gpus(answer: Any) -> Iterable[tuple[Any, Any]]:
    """Built into machine types, or on the list of GPUs."""
    for row in _rows(answer, "machineTypes"):
        for each in row.get("accelerators", ()):
            yield each, "guestAcceleratorType"
    for row in _rows(answer, "acceleratorTypes"):
        yield row, "name"


def _states(answer: Any) -> Iterable[tuple[Any, Any]]:
    machines = list(_rows(answer, "instances")) or [answer]
    return [(machine, "status") for machine in machines if "status" in machine]


def _names(answer: Any) -> Iterable[tuple[Any, Any]]:
    return [(machine, "name") for machine in _rows(answer, "instances")]


def _other_key(simulator: Simulator, url: str) -> str:
    assert isinstance(simulator, GcpSimulator)
    return simulator.other_key_at(url, "another-owners-project")


def _secret_parts(key: str) -> tuple[str, ...]:
    """Every line of the private key itself."""
    lines = json.loads(key)["private_key"].splitlines()
    return tuple(line for line in lines if not line.startswith("-----"))


def _own_words(status: int) -> bytes:
    reason = {412: "conditionNotMet"}.get(status, "invalid")
    error = {"code": status, "message": WORDS, "errors": [{"reason": reason, "message": WORDS}]}
    return json.dumps({"error": error}).encode()


PROVIDER = Provider(
    facts=gcp.FACTS,
    judge="google-cloud-compute 1.56.0",
    tells_prices=False,
    simulator=simulator,
    build=gcp.build,
    settings=_settings,
    other_key=_other_key,
    secret_parts=_secret_parts,
    exempt={
        "check: a key that comes to belong to another account is noticed": (
            "a service account stays in its project: another's is refused for ours, which is tried in "
            "tests/contracts/clouds/gcp"
        ),
        "terminate: what refuses an order refuses no end for good": (
            "it takes the order, and lets the operation fail: an operation of an end that fails is tried in "
            "tests/contracts/clouds/gcp"
        ),
    },
    tells_balance=False,
    unique_names=True,
    page_rows=500,
    page_parameter="maxResults",
    offer_rows=50,
    end_page=lambda page: page.pop("nextPageToken", None),
    own_tags=("tgp-token",),
    token_fields=2,  # name and label; the request id is made of it, and not it
    gpu_slots=_gpus,
    state_slots=_states,
    name_slots=_names,
    announces_ends=True,
    own_words=_own_words,
)
