"""What is on sale: the whole listing or an error, and nothing that makes no sense."""

from collections import Counter

from tests.contracts.clouds.provider import Provider
from tests.contracts.clouds.stage import Stage
from tests.contracts.clouds.suite import promise
from tgp.core.model import gpus
from tgp.core.model.cloud_errors import CannotTell, CloudBusy, KeyRefused
from tgp.core.model.offer import Offer, Stock
from tgp.core.model.prices import HIGHEST_HOURLY
from tgp.ports.cloud import Listing
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb

BEYOND_ANY_BOUND = b" " * (50 << 20)
NO_ANSWER = (CannotTell, CloudBusy)  # both mean: unknown, keep what was known


def table_prices(provider: Provider) -> str:
    return "" if provider.tells_prices else "its API tells no prices; they are from a dated table"


def no_price_slots(provider: Provider) -> str:
    return table_prices(provider)


def keyless(provider: Provider) -> str:
    return "" if provider.keyed else "it has no key"


@promise("offers: something is on sale, and every offer makes sense")
async def _(stage: Stage) -> None:
    listing = await stage.cloud.offers()

    assert len(listing.offers) >= 3
    assert [offer for offer in listing.offers if what_is_wrong_with(offer, stage.provider)] == []


def what_is_wrong_with(offer: Offer, provider: Provider) -> str:
    """Empty: nothing."""
    sane = {
        "provider": offer.provider == provider.facts.provider,
        "sku": bool(offer.sku) and bool(offer.place),
        "gpu": gpus.family_members(offer.gpu) == (offer.gpu,),
        "gpu_count": 1 <= offer.gpu_count <= 64,
        "gpu_memory_gib": 1 <= offer.gpu_memory_gib <= 4_096,
        "size": min(offer.vcpus, offer.memory_gib, offer.disk_gib) >= 0,
        "price": isinstance(offer.hourly_microusd, int) and 0 < offer.hourly_microusd <= HIGHEST_HOURLY,
        "boot": offer.boot in provider.facts.boot,
        "country": offer.country == "" or (len(offer.country) == 2 and offer.country.isupper()),
        "spot": not offer.spot or provider.facts.sells_spot,
        "left": offer.left is None or offer.left >= 0,
    }
    return ", ".join(name for name, fine in sane.items() if not fine)


@promise("offers: no two offers share a key")
async def _(stage: Stage) -> None:
    listing = await stage.cloud.offers()

    assert [key for key, count in Counter(offer.key for offer in listing.offers).items() if count > 1] == []


@promise("offers: an unchanged market is listed equally twice")
async def _(stage: Stage) -> None:
    first = await stage.cloud.offers()

    assert await stage.cloud.offers() == first


@promise("offers: looking costs nothing")
async def _(stage: Stage) -> None:
    await stage.cloud.offers()

    assert stage.count(CloudVerb.LAUNCH, CloudVerb.TERMINATE) == 0
    assert stage.fleet.machines == {}


@promise("offers: a price that moved is seen", unfit=table_prices)
async def _(stage: Stage) -> None:
    before = {offer.key: offer.hourly_microusd for offer in (await stage.cloud.offers()).offers}
    for stand in stage.fleet.selling():
        spot = stand.spot_microusd * 2 if stand.spot_microusd is not None else None
        stage.fleet.reprice(stand.product.id, stand.hourly_microusd * 2, spot)
    after = {offer.key: offer.hourly_microusd for offer in (await stage.cloud.offers()).offers}

    assert before.keys() & after.keys()
    assert [key for key in before.keys() & after.keys() if after[key] <= before[key]] == []


@promise("offers: what is sold out is not offered as if it could be had")
async def _(stage: Stage) -> None:
    """An unknown stock must not be shown as in stock."""
    for stand in stage.fleet.selling():
        stage.fleet.restock(stand.product.id, 0)

    offers = (await stage.cloud.offers()).offers

    assert [offer.key for offer in offers if offer.stock in (Stock.CONFIRMED, Stock.LIKELY)] == []


@promise("offers: a table of prices says its date")
async def _(stage: Stage) -> None:
    listing = await stage.cloud.offers()

    assert {bool(offer.priced_on) for offer in listing.offers} == {not stage.provider.tells_prices}


async def with_prices(stage: Stage, price: object) -> Listing | None:
    """What is listed when every price is that; None: the whole answer was refused."""
    stage.spoil(CloudVerb.OFFERS, stage.provider.price_slots, price)
    try:
        return await stage.cloud.offers()
    except CannotTell:
        return None


async def nothing_at_this_price(stage: Stage, price: object) -> None:
    listing = await with_prices(stage, price)
    assert listing is None or (listing.offers == () and sum(listing.dropped.values()) > 0), listing


@promise("offers: a negative price is dropped and counted", unfit=no_price_slots)
async def _(stage: Stage) -> None:
    await nothing_at_this_price(stage, -0.4)


@promise("offers: a price of nothing is dropped and counted", unfit=no_price_slots)
async def _(stage: Stage) -> None:
    await nothing_at_this_price(stage, 0)


@promise("offers: a price in words is dropped and counted", unfit=no_price_slots)
async def _(stage: Stage) -> None:
    await nothing_at_this_price(stage, "call us")


@promise("offers: NaN is dropped and counted", unfit=no_price_slots)
async def _(stage: Stage) -> None:
    await nothing_at_this_price(stage, "NaN")


@promise("offers: a fortune is dropped and counted", unfit=no_price_slots)
async def _(stage: Stage) -> None:
    await nothing_at_this_price(stage, 10**30)


@promise("offers: a missing price is not a free machine", unfit=no_price_slots)
async def _(stage: Stage) -> None:
    await nothing_at_this_price(stage, None)


@promise("offers: an unknown GPU is dropped and counted")
async def _(stage: Stage) -> None:
    stage.spoil(CloudVerb.OFFERS, stage.provider.gpu_slots, "Quantum Abacus 9000")

    listing = await stage.cloud.offers()

    assert listing.offers == ()
    assert sum(listing.dropped.values()) > 0


@promise("offers: a page of a proxy is unknown, not an empty market")
async def _(stage: Stage) -> None:
    stage.aim(CloudFault.HTML, CloudVerb.OFFERS)

    await stage.raises(NO_ANSWER, stage.cloud.offers())


@promise("offers: an empty body is unknown, not an empty market")
async def _(stage: Stage) -> None:
    stage.aim(CloudFault.EMPTY_BODY, CloudVerb.OFFERS)

    await stage.raises(NO_ANSWER, stage.cloud.offers())


@promise("offers: another shape is unknown, not an empty market")
async def _(stage: Stage) -> None:
    stage.aim(CloudFault.GARBAGE, CloudVerb.OFFERS)

    await stage.raises(NO_ANSWER, stage.cloud.offers())


@promise("offers: a retired endpoint is unknown, not an empty market")
async def _(stage: Stage) -> None:
    stage.instead(CloudVerb.OFFERS, 410, b'{"error": "gone"}')

    await stage.raises(NO_ANSWER, stage.cloud.offers())


@promise("offers: an error is unknown, not an empty market")
async def _(stage: Stage) -> None:
    stage.aim(CloudFault.ERROR, CloudVerb.OFFERS)

    await stage.raises(NO_ANSWER, stage.cloud.offers())


@promise("offers: half an answer is unknown")
async def _(stage: Stage) -> None:
    stage.instead(CloudVerb.OFFERS, 200, b'{"offers": [{"id": 1, "gpu_name": "RTX')

    await stage.raises(NO_ANSWER, stage.cloud.offers())


@promise("offers: a body beyond any bound is not read")
async def _(stage: Stage) -> None:
    stage.instead(CloudVerb.OFFERS, 200, BEYOND_ANY_BOUND)

    await stage.raises(NO_ANSWER, stage.cloud.offers())


@promise("offers: silence is told as busy")
async def _(stage: Stage) -> None:
    stage.aim(CloudFault.HANG_UP, CloudVerb.OFFERS)

    await stage.raises(CloudBusy, stage.cloud.offers())


@promise("offers: too many requests is told as busy, with the wait that was asked for")
async def _(stage: Stage) -> None:
    stage.aim(CloudFault.BUSY, CloudVerb.OFFERS)

    error = await stage.raises(CloudBusy, stage.cloud.offers())

    assert error.retry_after is not None


@promise("offers: too many requests in plain text is told as busy")
async def _(stage: Stage) -> None:
    stage.aim(CloudFault.BUSY_TEXT, CloudVerb.OFFERS)

    await stage.raises(CloudBusy, stage.cloud.offers())


def public_or_keyless(provider: Provider) -> str:
    return keyless(provider) or ("its offers are public" if provider.facts.public_offers else "")


@promise("offers: a revoked key is refused as a key", unfit=public_or_keyless)
async def _(stage: Stage) -> None:
    stage.aim(CloudFault.KEY_REVOKED, CloudVerb.OFFERS)

    await stage.raises(KeyRefused, stage.cloud.offers())


def private(provider: Provider) -> str:
    return "" if provider.facts.public_offers else "its offers are for customers only"


@promise("offers: what is public can be read without a key", unfit=private)
async def _(stage: Stage) -> None:
    listing = await stage.cloud_of(None).offers()

    assert listing.offers != ()
