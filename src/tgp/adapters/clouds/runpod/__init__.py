"""RunPod: containers on rented GPUs, by its REST API v2. The README says what it relies on."""

from tgp.adapters.clouds.door import Door
from tgp.adapters.clouds.runpod.client import RunPodCloud
from tgp.adapters.clouds.runpod.facts import FACTS
from tgp.ports.cloud import Cloud

__all__ = ["FACTS", "build"]


def build(door: Door) -> Cloud:
    return RunPodCloud(door.http(FACTS), door.account, door.settings.cloud, door.key)
