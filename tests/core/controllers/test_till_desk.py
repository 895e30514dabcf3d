"""What a provider keeps of a machine beside the machine itself goes with it, or somebody asks again."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from tests.core.controllers.accounts import Paper, accounts_on
from tests.core.controllers.tills import HandClock
from tgp.adapters.kube.store import Store
from tgp.api.request import Attempt, ChosenOffer
from tgp.api.resource import GPU_REQUEST
from tgp.controllers.gate import Gate
from tgp.controllers.till_desk import TillDesk
from tgp.core.model.cloud_account import account_of
from tgp.core.model.cloud_errors import CloudBusy, CloudError, KeyRefused
from tgp.core.model.secret import Secret
from tgp.core.model.till import Till
from tgp.ports.cluster import ClusterBusy

TOKEN = "tgp-0123456789-" + "a" * 32 + "-1"
OFFER = ChosenOffer(provider="paperspace", instance_type="A4000", boot_mode="takeover")
ACCOUNT = account_of(Till("paperspace", "keys", "PAPERSPACE_API_KEY"), "acme")
ATTEMPT = Attempt(number=1, token=TOKEN, offer=OFFER, account=ACCOUNT.id)


class Paperspace:
    """As far as it is tidied up there."""

    def __init__(self, trouble: CloudError | None = None) -> None:
        self.trouble = trouble
        self.tidied: list[str] = []

    async def tidy(self, token: str) -> None:
        if self.trouble is not None:
            raise self.trouble
        self.tidied.append(token)

    def open(self, *_asked: Any) -> "Paperspace":
        return self


class Keys:
    async def read(self, _name: str) -> Mapping[str, Secret]:
        return {"PAPERSPACE_API_KEY": Secret("a key")}


class Packed:
    def __init__(self) -> None:
        self.discarded: list[str] = []

    async def discard(self, token: str) -> None:
        self.discarded.append(token)


def desk(cloud: Paperspace) -> tuple[TillDesk, Packed]:
    boot = Packed()
    accounts = accounts_on(Paper(ACCOUNT), Store(GPU_REQUEST), HandClock())
    return TillDesk(cloud, accounts, Keys(), Gate(None), boot), boot  # type: ignore[arg-type] - as far as it is looked at


def test_what_was_left_for_a_machine_is_removed_here_and_there():
    cloud = Paperspace()
    counter, boot = desk(cloud)
    asyncio.run(counter.discard(ATTEMPT))
    assert (cloud.tidied, boot.discarded) == ([TOKEN], [TOKEN])


def test_whoever_gives_a_machine_back_asks_until_nothing_is_left():
    counter, _ = desk(Paperspace(CloudBusy("503")))
    with pytest.raises(ClusterBusy, match="was not removed"):
        asyncio.run(counter.discard(ATTEMPT, insist=True))


def test_nobody_waits_for_it_where_nothing_was_bought_or_nobody_may_ask():
    """It returns, and what was made here for the machine is gone all the same."""
    for trouble, insist in ((CloudBusy("503"), False), (KeyRefused("revoked"), True)):
        counter, boot = desk(Paperspace(trouble))
        asyncio.run(counter.discard(ATTEMPT, insist=insist))
        assert boot.discarded == [TOKEN]
