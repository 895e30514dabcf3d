"""`GET /api/v1/offers`: the operator's own price book, with the age of every price."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar

import msgspec

from tgp.api.common import PROVIDERS
from tgp.core.access.rights import ListRight, PageRight
from tgp.core.model import gpus
from tgp.core.model.price_book import PriceBook
from tgp.core.model.prices import MICRO, NotAPrice, hourly_microusd
from tgp.interfaces.offer_list import offer_list
from tgp.interfaces.web.pages import JSON_TYPE, BadQuestion
from tgp.ports.compute import Compute
from tgp.ports.http import Call, Pairs, Reply
from tgp.services.market import offer_answer
from tgp.services.market_documents import OfferQuestion

MOST_GPUS, MOST_VRAM_GIB = 64, 1024
MOST_ROWS = 10_000
LONGEST = 64  # characters of a name
MOST_NAMES = 32  # of one parameter


class OffersPage:
    path = "/api/v1/offers"
    namespaced = True
    operation: ClassVar[dict[str, Any]] = {
        "operationId": "offers",
        "summary": "Offers that the operator knows, best first: as `tgp offers -o json` prints them",
        "parameters": [],
        "responses": {"200": {"description": "An OfferList", "content": {"application/json": {"schema": {}}}}},
    }

    def __init__(self, book: Callable[[], PriceBook], now: Callable[[], datetime], compute: Compute) -> None:
        self._book = book
        self._now = now
        self._compute = compute

    def right(self, call: Call) -> PageRight:
        return ListRight("offers", _word(call, "namespace"))

    async def answer(self, call: Call) -> Reply:
        question, limit = question_of(call)
        book, now = self._book(), self._now()

        def work() -> bytes:  # some tens of thousands of offers: too long for the event loop
            answer = offer_answer(book, question, now)
            return msgspec.json.encode(offer_list(answer.rows[:limit], answer.notes))

        return Reply(200, await self._compute.run(work), JSON_TYPE)


STRING = {"type": "string", "minLength": 1, "maxLength": LONGEST}
NAMES = {"type": "array", "items": STRING, "maxItems": MOST_NAMES}
PARAMETERS: dict[str, tuple[dict[str, Any], str]] = {
    "namespace": (STRING, "A namespace of yours: its right to list offers is enough"),
    "gpu": (NAMES, "Model or family"),
    "count": ({"type": "integer", "minimum": 1, "maximum": MOST_GPUS}, "Exactly this many GPUs in one machine"),
    "maxPrice": ({"type": "number", "exclusiveMinimum": 0, "maximum": 1000}, "Of the whole machine, dollars an hour"),
    "region": (NAMES, "us, eu-west, …"),
    "spot": ({"type": "boolean"}, "Only spot, or only on-demand"),
    "provider": ({"type": "array", "items": {"enum": list(PROVIDERS)}, "maxItems": MOST_NAMES}, "Only these"),
    "minVram": ({"type": "integer", "minimum": 0, "maximum": MOST_VRAM_GIB}, "GiB of one GPU, at least"),
    "talos": ({"type": "boolean"}, "Only offers that can become a node"),
    "limit": ({"type": "integer", "minimum": 1, "maximum": MOST_ROWS}, "Number of offers"),
}
OffersPage.operation["parameters"] = [
    {"name": name, "in": "query", "description": text, "schema": schema} for name, (schema, text) in PARAMETERS.items()
]


def question_of(call: Call) -> tuple[OfferQuestion, int]:
    """The question, and how many rows are wanted. Raises BadQuestion."""
    for name, _ in call.query:
        if name not in PARAMETERS:
            raise BadQuestion(f"unknown parameter {name[:LONGEST]!r}; known are {', '.join(PARAMETERS)}")
    unknown = [name for name in _words(call, "provider") if name not in PROVIDERS]
    if unknown:
        raise BadQuestion(f"provider: {unknown[0]!r} is not one of {', '.join(PROVIDERS)}")
    question = OfferQuestion(
        gpus=_models(call),
        count=_number(call, "count", 1, MOST_GPUS),
        max_hourly_microusd=_price(call),
        regions=_words(call, "region"),
        spot=_truth(call, "spot"),
        providers=_words(call, "provider"),
        talos=_truth(call, "talos") or False,
        min_vram_gib=_number(call, "minVram", 0, MOST_VRAM_GIB) or 0,
    )
    return question, _number(call, "limit", 1, MOST_ROWS) or MOST_ROWS


def query_of(question: OfferQuestion) -> Pairs:
    """The parameters that `question_of` reads."""
    pairs = [("gpu", gpu) for gpu in question.gpus]
    pairs += [("count", str(question.count))] if question.count else []
    if question.max_hourly_microusd is not None:
        whole, micro = divmod(question.max_hourly_microusd, MICRO)
        pairs.append(("maxPrice", f"{whole}.{micro:06}"))
    pairs += [("region", region) for region in question.regions]
    pairs += [] if question.spot is None else [("spot", str(question.spot).lower())]
    pairs += [("provider", provider) for provider in question.providers]
    pairs += [("minVram", str(question.min_vram_gib))] if question.min_vram_gib else []
    return (*pairs, *((("talos", "true"),) if question.talos else ()))


def _models(call: Call) -> tuple[str, ...]:
    names = _words(call, "gpu")
    for name in names:
        if not gpus.family_members(name):
            near = gpus.nearest(name)
            hint = f"; did you mean {', '.join(near)}?" if near else ""
            raise BadQuestion(f"gpu: no GPU is called {name!r}{hint}")
    return names


def _words(call: Call, name: str) -> tuple[str, ...]:
    found = tuple(value for key, value in call.query if key == name)
    if len(found) > MOST_NAMES:
        raise BadQuestion(f"{name}: {len(found)} values, at most {MOST_NAMES} are allowed")
    if any(not 1 <= len(value) <= LONGEST or not value.isprintable() for value in found):
        raise BadQuestion(f"{name}: a value has 1 to {LONGEST} printable characters")
    return found


def _word(call: Call, name: str) -> str:
    found = _words(call, name)
    if len(found) > 1:
        raise BadQuestion(f"{name}: given {len(found)} times, once is allowed")
    return found[0] if found else ""


def _number(call: Call, name: str, least: int, most: int) -> int | None:
    text = _word(call, name)
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
        raise BadQuestion(f"{name}: {text!r} is not a whole number from {least} to {most}")
    return int(text)


def _truth(call: Call, name: str) -> bool | None:
    text = _word(call, name)
    if text not in ("", "true", "false"):
        raise BadQuestion(f"{name}: {text!r} is not true or false")
    return None if not text else text == "true"


def _price(call: Call) -> int | None:
    text = _word(call, "maxPrice")
    try:
        return hourly_microusd(text) if text else None
    except NotAPrice as error:
        raise BadQuestion(f"maxPrice: {error}") from error
