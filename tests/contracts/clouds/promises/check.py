"""Trying the key: who it is and what is left, without spending anything; and the facts that are told beforehand."""

from datetime import timedelta

from tests.contracts.clouds.promises.offers import NO_ANSWER, keyless
from tests.contracts.clouds.provider import Provider
from tests.contracts.clouds.stage import Stage
from tests.contracts.clouds.suite import promise
from tgp.core.model.cloud_errors import CloudBusy, KeyRefused
from tgp.core.model.prices import MICRO
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb


def tells_no_balance(provider: Provider) -> str:
    return "" if provider.tells_balance else "it does not tell a balance"


def names_no_account(provider: Provider) -> str:
    return keyless(provider) or (
        "" if provider.names_account else "it names no account: the key's digest stands for it"
    )


@promise("facts: they are those of the adapter's provider, and make sense")
async def _(stage: Stage) -> None:
    facts = stage.cloud.facts

    assert facts == stage.provider.facts
    assert facts.title
    assert facts.boot
    assert timedelta() <= facts.listing_lag <= timedelta(minutes=30)
    assert facts.user_data_bytes >= 0
    assert timedelta(seconds=30) <= facts.refresh_every <= timedelta(hours=1)
    assert all(rate.calls > 0 and rate.per > timedelta() and rate.burst > 0 for rate in facts.rates.values())


@promise("facts: the pretend provider lists a launch within the lag that is told")
async def _(stage: Stage) -> None:
    assert timedelta(seconds=stage.fleet.habits.list_lag[1]) <= stage.cloud.facts.listing_lag


@promise("facts: offers are of the kinds and boot modes that are told")
async def _(stage: Stage) -> None:
    offers = (await stage.cloud.offers()).offers

    assert {offer.boot for offer in offers} <= set(stage.cloud.facts.boot)
    assert any(offer.spot for offer in offers) == stage.cloud.facts.sells_spot


@promise("check: the account has a name that stays")
async def _(stage: Stage) -> None:
    first = await stage.cloud.identity()

    assert first.id
    assert await stage.cloud.identity() == first
    assert (await stage.cloud.check()).account.id == first.id
    assert await stage.cloud_of(stage.key if stage.provider.keyed else None).identity() == first


@promise("check: another account has another name", unfit=keyless)
async def _(stage: Stage) -> None:
    ours = await stage.cloud.identity()

    assert (await stage.other_cloud().identity()).id != ours.id


@promise("check: a key that comes to belong to another account is noticed", unfit=names_no_account)
async def _(stage: Stage) -> None:
    ours = await stage.cloud.identity()
    stage.aim(CloudFault.OTHER_ACCOUNT, stage.provider.account_by)

    assert (await stage.cloud_of(stage.key).identity()).id != ours.id


@promise("check: a revoked key is refused as a key", unfit=keyless)
async def _(stage: Stage) -> None:
    stage.aim(CloudFault.KEY_REVOKED, stage.provider.account_by)

    await stage.raises(KeyRefused, stage.cloud.check())


@promise("check: a key that was never one is refused as a key", unfit=keyless)
async def _(stage: Stage) -> None:
    stage.fleet.accounts.revoke(stage.simulator.key)

    await stage.raises(KeyRefused, stage.cloud_of(stage.key).check())


@promise("check: the balance is told", unfit=tells_no_balance)
async def _(stage: Stage) -> None:
    stage.tenant.balance_microusd = 25 * MICRO
    report = await stage.cloud.check()

    assert report.balance_microusd is not None
    assert abs(report.balance_microusd - 25 * MICRO) < MICRO // 10
    assert report.can_buy


@promise("check: an empty balance cannot buy", unfit=tells_no_balance)
async def _(stage: Stage) -> None:
    stage.tenant.balance_microusd = 0

    assert not (await stage.cloud.check()).can_buy


@promise("check: nothing is spent")
async def _(stage: Stage) -> None:
    await stage.cloud.check()
    await stage.cloud.identity()

    assert stage.count(CloudVerb.LAUNCH, CloudVerb.TERMINATE) == 0
    assert stage.fleet.machines == {}


@promise("check: a page of a proxy says nothing about the key")
async def _(stage: Stage) -> None:
    stage.aim(CloudFault.HTML, stage.provider.account_by)

    await stage.raises(NO_ANSWER, stage.cloud.check())


@promise("check: an error says nothing about the key")
async def _(stage: Stage) -> None:
    stage.aim(CloudFault.ERROR, stage.provider.account_by)

    await stage.raises(NO_ANSWER, stage.cloud.check())


@promise("check: too many requests is told as busy")
async def _(stage: Stage) -> None:
    stage.aim(CloudFault.BUSY, stage.provider.account_by)

    await stage.raises(CloudBusy, stage.cloud.check())
