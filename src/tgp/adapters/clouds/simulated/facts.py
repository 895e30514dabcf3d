"""Facts about the provider. The README beside this file has the sources."""

from datetime import timedelta

from tgp.core.model.offer import BootMode
from tgp.core.model.provider_facts import CloudFacts, Rate

FACTS = CloudFacts(
    provider="simulated",
    title="Simulated",
    boot=(BootMode.NATIVE,),
    endpoint="http://127.0.0.1:8010",  # where `tgp sim` serves it
    listing_lag=timedelta(seconds=10),
    public_offers=True,
    sells_spot=True,
    user_data_bytes=64 << 10,
    rates={"": Rate(calls=6000, per=timedelta(minutes=1), burst=100)},
)
