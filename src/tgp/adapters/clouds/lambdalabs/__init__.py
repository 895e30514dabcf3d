"""Lambda Labs (Lambda Cloud API 1.8): whole machines in its own data centres, on demand, under Lambda's own Linux."""

from tgp.adapters.clouds.context import AdapterContext
from tgp.adapters.clouds.lambdalabs.facts import FACTS
from tgp.ports.cloud import Cloud

__all__ = ["FACTS", "build"]


def build(context: AdapterContext) -> Cloud:
    from tgp.adapters.clouds.lambdalabs.client import LambdaCloud

    return LambdaCloud(context)
