"""Google Cloud: machines with GPUs that boot a Talos image natively, on demand and spot."""

from tgp.adapters.clouds.context import AdapterContext
from tgp.adapters.clouds.gcp.facts import FACTS
from tgp.ports.cloud import Cloud

__all__ = ["FACTS", "build"]


def build(context: AdapterContext) -> Cloud:
    from tgp.adapters.clouds.gcp.client import GcpCloud

    return GcpCloud(context)
