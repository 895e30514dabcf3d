"""RunPod: containers on rented GPUs, by its REST API v2. The README lists the facts it relies on."""

from tgp.adapters.clouds.context import AdapterContext
from tgp.adapters.clouds.runpod.facts import FACTS
from tgp.ports.cloud import Cloud

__all__ = ["FACTS", "build"]


def build(context: AdapterContext) -> Cloud:
    from tgp.adapters.clouds.runpod.client import RunPodCloud

    return RunPodCloud(context.http(FACTS), context.account, context.settings.cloud, context.key)
