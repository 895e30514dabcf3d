"""Where offers, and whatever else was at fault, sit out what went wrong with them."""

from datetime import datetime

from tgp.api.request import Attempt
from tgp.controllers.accounts import Accounts
from tgp.controllers.market import Market
from tgp.core.rules import benching
from tgp.core.rules.purchase import offer_of

THE_KEYS_FAULT = frozenset({"KeyRefused", "Exhausted"})  # no other offer would do better under it
NOBODYS_FAULT = "Withdrawn"


class Bench:
    def __init__(self, market: Market, accounts: Accounts) -> None:
        self._market = market
        self._accounts = accounts

    def failed(self, attempt: Attempt, outcome: str, why: str, now: datetime, *, never_joined: bool = False) -> None:
        if attempt.offer is None or outcome == NOBODYS_FAULT:
            return
        offer = offer_of(attempt.offer)
        market, account = self._market, self._accounts.of(attempt)
        if account is None:  # whatever stands in such a record is held against nothing
            return
        if outcome in THE_KEYS_FAULT:
            market.marks = benching.account_failed(market.marks, offer, account.till.name, why, now)
        else:
            market.marks = benching.failed(market.marks, offer, why, now, never_joined=never_joined)

    def succeeded(self, attempt: Attempt | None) -> None:
        account = self._accounts.of(attempt) if attempt is not None else None
        if attempt is not None and attempt.offer is not None and account is not None:
            self._market.marks = benching.succeeded(self._market.marks, offer_of(attempt.offer), account.till.name)
