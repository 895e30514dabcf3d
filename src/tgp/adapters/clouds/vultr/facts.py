"""Facts about Vultr. Sources and dates: README.md."""

from datetime import timedelta

from tgp.core.model.offer import BootMode
from tgp.core.model.provider_facts import CloudFacts, Rate

FACTS = CloudFacts(
    provider="vultr",
    title="Vultr",
    boot=(BootMode.NATIVE,),
    endpoint="https://api.vultr.com/v2",
    listing_lag=timedelta(seconds=60),  # not published; launches are listed at once as far as known
    talos_platform="vultr",
    imported_image="vultr-{arch}.raw",  # an import needs it uncompressed
    public_offers=True,
    tells_billed_price=False,
    rates={"": Rate(10, timedelta(seconds=1), burst=5)},  # 30 calls a second are allowed; a verb may be three of them
)
