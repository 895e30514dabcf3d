"""Facts about RunPod. The README beside has the sources."""

from datetime import timedelta

from tgp.core.model.offer import BootMode
from tgp.core.model.provider_facts import CloudFacts, Rate

MIN_CUDA = "12.8"  # of a host's driver: as gpuhunt and dstack require; images of this year are built on it

FACTS = CloudFacts(
    provider="runpod",
    title="RunPod",
    boot=(BootMode.CONTAINER,),
    endpoint="https://api.runpod.io",
    listing_lag=timedelta(seconds=60),  # not published; no longer one was reported
    launch_timeout=timedelta(seconds=60),  # as in the documentation's example
    user_data_bytes=0,  # containers accept none
    # The schema's example is 60 a minute in total; a listing of offers makes up to 20 calls every two minutes.
    rates={"": Rate(40, timedelta(minutes=1), burst=10)},
)
