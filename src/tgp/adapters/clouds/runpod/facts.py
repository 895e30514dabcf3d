"""What is known of RunPod before it is asked anything. The README beside says where each is from."""

from datetime import timedelta

from tgp.core.model.offer import BootMode
from tgp.ports.cloud import CloudFacts, Rate

MIN_CUDA = "12.8"  # of a host's driver: what gpuhunt and dstack ask for; images of this year are built on it

FACTS = CloudFacts(
    provider="runpod",
    title="RunPod",
    boot=(BootMode.CONTAINER,),
    endpoint="https://api.runpod.io",
    listing_lag=timedelta(seconds=60),  # not published; nobody reported a longer one
    launch_timeout=timedelta(seconds=60),  # the documentation's own example waits so long
    key_variable="RUNPOD_API_KEY",
    user_data_bytes=0,  # a container takes none
    # The schema's example is 60 a minute for everything; a listing of offers asks up to 20 times every two minutes.
    rates={"": Rate(40, timedelta(minutes=1), burst=10)},
    judged_by="@runpod/mcp-server 4.0.0",
)
