"""Facts about Lambda Labs. Sources and dates: README.md."""

from datetime import timedelta

from tgp.core.model.offer import BootMode
from tgp.core.model.provider_facts import CloudFacts, Rate

FACTS = CloudFacts(
    provider="lambdalabs",
    title="Lambda Labs",
    boot=(BootMode.TAKEOVER,),
    endpoint="https://cloud.lambda.ai/api/v1",
    listing_lag=timedelta(seconds=60),  # not published; launches are listed at once as far as known
    start_timeout=timedelta(minutes=15),  # a machine of eight GPUs took 25 minutes
    other_key_variables=("LAMBDA_API_KEY", "LAMBDA_CLOUD_TOKEN"),
    billing_step=timedelta(minutes=1),
    user_data_bytes=1_000_000,
    rates={
        "": Rate(1, timedelta(seconds=1)),
        "launch": Rate(1, timedelta(seconds=12)),
    },
)
