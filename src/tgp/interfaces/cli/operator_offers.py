"""Where `tgp offers` has its offers from: the operator's own book if it may be read, else the keys of this terminal."""

from dataclasses import replace

from tgp.api.common import canonical_provider
from tgp.interfaces.cli.context import OfferActions
from tgp.interfaces.web.offers_page import OFFERS, query_of
from tgp.services.documents.market import NotAnOfferList, read_offer_list
from tgp.services.market_answers import OfferAnswer, OfferQuestion
from tgp.services.operator_api import OperatorApi, OperatorOutOfReach

FROM_OPERATOR = "These offers are from the operator's own price book. With the API keys of this terminal: --direct"


class OperatorOffers:
    """Each look asks the operator first."""

    def __init__(self, api: OperatorApi, market: OfferActions) -> None:
        self._api = api
        self._market = market

    async def look(self, question: OfferQuestion) -> OfferAnswer:
        named = replace(question, providers=tuple(map(canonical_provider, question.providers)))
        try:
            answer = read_offer_list(await self._api.read(OFFERS.path, query_of(named)))
        except (OperatorOutOfReach, NotAnOfferList) as error:
            return _advised(await self._market.look(question), f"The operator's price book cannot be read: {error}")
        return _advised(answer, FROM_OPERATOR)


def _advised(answer: OfferAnswer, text: str) -> OfferAnswer:
    return replace(answer, notes=replace(answer.notes, advice=(*answer.notes.advice, text)))
