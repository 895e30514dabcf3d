"""Facts about Google Cloud. The README beside this file has the sources."""

from datetime import timedelta

from tgp.core.model.offer import BootMode
from tgp.core.model.provider_facts import CloudFacts, Rate

FACTS = CloudFacts(
    provider="gcp",
    title="Google Cloud",
    boot=(BootMode.NATIVE,),
    endpoint="https://compute.googleapis.com",
    listing_lag=timedelta(seconds=60),
    start_timeout=timedelta(minutes=5),
    key_file_variable="GOOGLE_APPLICATION_CREDENTIALS",  # of Google's own tools
    text_user_data=True,  # its metadata are strings
    talos_platform="gcp",
    sells_spot=True,
    longest_run=timedelta(days=120),  # of maxRunDuration
    tells_billed_price=False,
    user_data_bytes=256 << 10,
    refresh_every=timedelta(minutes=10),
    rates={"": Rate(calls=600, per=timedelta(minutes=1), burst=20)},
)
