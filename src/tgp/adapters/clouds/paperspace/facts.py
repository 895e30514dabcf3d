"""Facts about Paperspace. The README beside has the sources."""

from datetime import timedelta

from tgp.core.model.offer import BootMode
from tgp.core.model.provider_facts import CloudFacts, Rate

FACTS = CloudFacts(
    provider="paperspace",
    title="Paperspace",
    boot=(BootMode.TAKEOVER,),
    endpoint="https://api.paperspace.com",
    listing_lag=timedelta(seconds=60),  # not published
    launch_timeout=timedelta(seconds=60),
    start_timeout=timedelta(minutes=15),
    runs_scripts=True,
    user_data_bytes=64 << 10,  # the size of a start-up script is not published; a larger one would be refused
    notes=("not confirmed by any source: spelling of regions, deleting a running machine, size of start-up scripts",),
    rates={"": Rate(60, timedelta(minutes=1), burst=10)},  # not published; our choice, so that 429 stays rare
)
