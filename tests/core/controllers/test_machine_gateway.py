"""What a provider keeps of a machine besides the machine itself is removed with it, or the removal is retried."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from tests.core.controllers.account_access import HandClock
from tests.core.controllers.accounts import MemoryConfigMap, accounts_on
from tgp.adapters.kube.store import Store
from tgp.api.request import Attempt, ChosenOffer
from tgp.api.resource import GPU_REQUEST
from tgp.controllers.requests.leader_guard import LeaderGuard
from tgp.controllers.requests.machine_gateway import MachineGateway
from tgp.core.model.account_access import AccountAccess
from tgp.core.model.cloud_account import account_of
from tgp.core.model.cloud_errors import CloudBusy, CloudError, KeyRefused
from tgp.core.model.secret import Secret
from tgp.ports.cluster import ClusterBusy

TOKEN = "tgp-0123456789-" + "a" * 32 + "-1"
OFFER = ChosenOffer(provider="paperspace", instance_type="A4000", boot_mode="takeover")
ACCOUNT = account_of(AccountAccess("paperspace", "keys", "PAPERSPACE_API_KEY"), "acme")
ATTEMPT = Attempt(number=1, token=TOKEN, offer=OFFER, account=ACCOUNT.id)


class Paperspace:
    """As far as it is cleaned up there."""

    def __init__(self, trouble: CloudError | None = None) -> None:
        self.trouble = trouble
        self.cleaned_up: list[str] = []

    async def cleanup(self, token: str) -> None:
        if self.trouble is not None:
            raise self.trouble
        self.cleaned_up.append(token)

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


def a_gateway(cloud: Paperspace) -> tuple[MachineGateway, Packed]:
    boot = Packed()
    accounts = accounts_on(MemoryConfigMap(ACCOUNT), Store(GPU_REQUEST), HandClock())
    return MachineGateway(cloud, accounts, Keys(), LeaderGuard(None), boot), boot  # type: ignore[arg-type] - as far as it is looked at


def test_what_was_left_for_a_machine_is_removed_here_and_there():
    cloud = Paperspace()
    gateway, boot = a_gateway(cloud)
    asyncio.run(gateway.discard(ATTEMPT))
    assert (cloud.cleaned_up, boot.discarded) == ([TOKEN], [TOKEN])


def test_the_removal_of_leftovers_is_retried_until_nothing_is_left():
    gateway, _ = a_gateway(Paperspace(CloudBusy("503")))
    with pytest.raises(ClusterBusy, match="were not removed"):
        asyncio.run(gateway.discard(ATTEMPT, insist=True))


def test_leftovers_are_not_waited_for_where_nothing_was_bought_or_the_key_is_refused():
    """It returns, and what was made here for the machine is gone all the same."""
    for trouble, insist in ((CloudBusy("503"), False), (KeyRefused("revoked"), True)):
        gateway, boot = a_gateway(Paperspace(trouble))
        asyncio.run(gateway.discard(ATTEMPT, insist=insist))
        assert boot.discarded == [TOKEN]
