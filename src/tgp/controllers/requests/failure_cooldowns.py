"""Puts offers, hosts, providers and API keys into cooldown after a failure."""

from datetime import datetime

from tgp.api.request import Attempt
from tgp.controllers.instances.accounts import AccountTable
from tgp.controllers.market.reconciler import MarketState
from tgp.core.requests import cooldown
from tgp.core.requests.chosen_offer import offer_of

KEY_FAILURES = frozenset({"KeyRefused", "QuotaOrBalanceExhausted"})  # every other offer under the key would fail, too
NOT_ORDERED = "NotOrdered"


class FailureCooldowns:
    def __init__(self, market: MarketState, accounts: AccountTable) -> None:
        self._market = market
        self._accounts = accounts

    def failed(self, attempt: Attempt, outcome: str, why: str, now: datetime, *, never_joined: bool = False) -> None:
        if attempt.offer is None or outcome == NOT_ORDERED:
            return
        offer = offer_of(attempt.offer)
        market, account = self._market, self._accounts.of(attempt)
        if account is None:  # such a record causes no cooldown
            return
        if outcome in KEY_FAILURES:
            market.cooldowns = cooldown.account_failed(market.cooldowns, offer, account.access.name, why, now)
        else:
            market.cooldowns = cooldown.failed(market.cooldowns, offer, why, now, never_joined=never_joined)

    def succeeded(self, attempt: Attempt | None) -> None:
        account = self._accounts.of(attempt) if attempt is not None else None
        if attempt is not None and attempt.offer is not None and account is not None:
            self._market.cooldowns = cooldown.succeeded(
                self._market.cooldowns, offer_of(attempt.offer), account.access.name
            )
