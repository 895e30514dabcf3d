"""Facts about Vast.ai. The README has the sources."""

from datetime import timedelta

from tgp.core.model.offer import BootMode
from tgp.core.model.provider_facts import CloudFacts, Rate

PROVIDER = "vast"
TITLE = "Vast.ai"
LISTING_LAG = timedelta(seconds=60)  # not published; SkyPilot waits for new instances to appear; rounded up
USER_DATA_CHARACTERS = 4096  # of `onstart` and `args` together

# The documentation gives a least interval per endpoint, in seconds presumably; a refused create costs a pause of 12.
RATES = {
    "offers": Rate(4, timedelta(minutes=1)),  # 10 searches a minute, and a listing takes at least two
    "launch": Rate(1, timedelta(seconds=4.5)),
    "terminate": Rate(1, timedelta(seconds=3)),
    "status": Rate(1, timedelta(seconds=2)),
    "find": Rate(1, timedelta(seconds=1)),
    "owned": Rate(1, timedelta(seconds=1)),
    "check": Rate(1, timedelta(seconds=5)),
    "identity": Rate(1, timedelta(seconds=1)),
}

FACTS = CloudFacts(
    PROVIDER,
    TITLE,
    (BootMode.CONTAINER,),
    "https://console.vast.ai",
    LISTING_LAG,
    public_offers=True,
    sells_spot=True,
    user_data_bytes=USER_DATA_CHARACTERS,
    idle_refresh_every=timedelta(minutes=20),  # there is a daily quota of searches, of unpublished size
    rates=RATES,
)
