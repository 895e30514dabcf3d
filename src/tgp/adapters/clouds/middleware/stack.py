"""The whole middleware that the operator and the CLI put around every client."""

from tgp.adapters.clouds.middleware.account_throttle import AccountThrottles
from tgp.adapters.clouds.middleware.instrumented import Instrumented
from tgp.adapters.clouds.middleware.metrics import CloudMetrics, NoCloudMetrics
from tgp.adapters.clouds.middleware.rate_limited import RateLimited
from tgp.adapters.clouds.middleware.retrying import Retrying, RetryPolicy
from tgp.ports.cloud import Cloud
from tgp.ports.entropy import Entropy


def with_middleware(
    cloud: Cloud,
    *,
    source: str,
    throttles: AccountThrottles,
    entropy: Entropy,
    metrics: CloudMetrics | None = None,
    retry_policy: RetryPolicy | None = None,
) -> Cloud:
    """Metrics innermost, rate limits around them, retries outside: every retry waits for its slot like a first try.

    `source` names what the provider's rate limit covers: the same for all users of one key; never the key itself.
    """
    metrics = metrics or NoCloudMetrics()
    return Retrying(RateLimited(Instrumented(cloud, metrics), throttles, source, metrics), entropy, retry_policy)
