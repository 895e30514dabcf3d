"""`GET /api/v1/offers`: the operator's own price book, with the age of every price."""

from collections.abc import Callable
from datetime import datetime

import msgspec

from tgp.api.common import PROVIDERS
from tgp.core.access.rights import ListRight, PageRight
from tgp.core.model import gpus
from tgp.core.model.price_book import PriceBook
from tgp.core.model.prices import MICRO, NotAPrice, hourly_microusd
from tgp.interfaces.web.pages import JSON_TYPE, NAMESPACE_PARAMETER, PageDescription, Parameters
from tgp.interfaces.web.questions import (
    LONGEST,
    MOST_VALUES,
    BadQuestion,
    namespace_of,
    number,
    only_known,
    truth,
    word,
    words,
)
from tgp.ports.compute import Compute
from tgp.ports.http import Call, Pairs, Reply
from tgp.services.documents.market import OFFER_LIST, offer_list
from tgp.services.market import offer_answer
from tgp.services.market_answers import OfferQuestion

MOST_GPUS, MOST_VRAM_GIB = 64, 1024
MOST_ROWS = 10_000


STRING = {"type": "string", "minLength": 1, "maxLength": LONGEST}
NAMES = {"type": "array", "items": STRING, "maxItems": MOST_VALUES}
PARAMETERS: Parameters = {
    "namespace": NAMESPACE_PARAMETER,
    "gpu": (NAMES, "Model or family"),
    "count": ({"type": "integer", "minimum": 1, "maximum": MOST_GPUS}, "Exactly this many GPUs in one machine"),
    "maxPrice": ({"type": "number", "exclusiveMinimum": 0, "maximum": 1000}, "Of the whole machine, dollars an hour"),
    "region": (NAMES, "us, eu-west, …"),
    "spot": ({"type": "boolean"}, "Only spot, or only on-demand"),
    "provider": ({"type": "array", "items": {"enum": list(PROVIDERS)}, "maxItems": MOST_VALUES}, "Only these"),
    "minVram": ({"type": "integer", "minimum": 0, "maximum": MOST_VRAM_GIB}, "GiB of one GPU, at least"),
    "talos": ({"type": "boolean"}, "Only offers that can become a node"),
    "limit": ({"type": "integer", "minimum": 1, "maximum": MOST_ROWS}, "Number of offers"),
}
OFFERS = PageDescription(
    "/api/v1/offers",
    "offers",
    "Offers that the operator knows, best first: as `tgp offers -o json` prints them",
    kinds=(OFFER_LIST,),
    parameters=PARAMETERS,
    namespaced=True,
    of_leader=True,
)


class OffersPage:
    about = OFFERS

    def __init__(self, book: Callable[[], PriceBook], now: Callable[[], datetime], compute: Compute) -> None:
        self._book = book
        self._now = now
        self._compute = compute

    def right(self, call: Call) -> PageRight:
        return ListRight("offers", namespace_of(call))

    async def answer(self, call: Call) -> Reply:
        question, limit = question_of(call)
        book, now = self._book(), self._now()

        def work() -> bytes:  # some tens of thousands of offers: too long for the event loop
            answer = offer_answer(book, question, now)
            return msgspec.json.encode(offer_list(answer.rows[:limit], answer.notes))

        return Reply(200, await self._compute.run(work), JSON_TYPE)


def question_of(call: Call) -> tuple[OfferQuestion, int]:
    """The question, and how many rows are wanted. Raises BadQuestion."""
    only_known(call, PARAMETERS)
    unknown = [name for name in words(call, "provider") if name not in PROVIDERS]
    if unknown:
        raise BadQuestion(f"provider: {unknown[0]!r} is not one of {', '.join(PROVIDERS)}")
    question = OfferQuestion(
        gpus=_models(call),
        count=number(call, "count", 1, MOST_GPUS),
        max_hourly_microusd=_price(call),
        regions=words(call, "region"),
        spot=truth(call, "spot"),
        providers=words(call, "provider"),
        talos=truth(call, "talos") or False,
        min_vram_gib=number(call, "minVram", 0, MOST_VRAM_GIB) or 0,
    )
    return question, number(call, "limit", 1, MOST_ROWS) or MOST_ROWS


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
    names = words(call, "gpu")
    for name in names:
        if not gpus.family_members(name):
            near = gpus.nearest(name)
            hint = f"; did you mean {', '.join(near)}?" if near else ""
            raise BadQuestion(f"gpu: no GPU is called {name!r}{hint}")
    return names


def _price(call: Call) -> int | None:
    text = word(call, "maxPrice")
    try:
        return hourly_microusd(text) if text else None
    except NotAPrice as error:
        raise BadQuestion(f"maxPrice: {error}") from error
