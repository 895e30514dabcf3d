"""What a class says about each pretend provider, and which machine is asked of it in the walk."""

from dataclasses import dataclass
from typing import Any

import msgspec

from tests.controlplane.simulators import POWER_HOST
from tgp.adapters.clouds.registry import facts_of
from tgp.api.nodeclass import ProviderSettings
from tgp.core.model.offer import BootMode
from tgp.sim.clouds.lambdalabs import SSH_KEY_NAME
from tgp.sim.clouds.registry import SIMULATORS
from tgp.sim.clouds.vultr.simulator import SNAPSHOT_ID
from tgp.sim.clouds.webhook import settings_at


@dataclass(frozen=True, slots=True)
class Asked:
    """A machine that the pretend market of every seed has."""

    gpu: str
    count: int
    boots: tuple[BootMode, ...]


GPUS = {
    "vast": ("RTX4090", 1),
    "runpod": ("RTX4090", 1),
    "lambdalabs": ("A10", 1),
    "paperspace": ("A4000", 1),
    "vultr": ("L40S", 1),
    "gcp": ("L4", 1),
    "webhook": ("RTX3080", 1),  # the third box of the cellar
    "simulated": ("T4", 1),
}
PROVIDERS = {name: Asked(*GPUS[name], facts_of(name).boot) for name in SIMULATORS}
ANY_TAINT = [{"operator": "Exists"}]
BOXES_NAMED = range(4)  # of the cellar: one of each build


def settings_of(provider: str, url: str) -> ProviderSettings:
    """As an administrator with a private gateway would write it."""
    match provider:
        case "lambdalabs":
            return ProviderSettings(endpoint=url, ssh_key_name=SSH_KEY_NAME)
        case "gcp":
            return ProviderSettings(endpoint=url, image="talos-1-11")
        case "vultr":
            return ProviderSettings(endpoint=url, snapshot_id=SNAPSHOT_ID)
        case "webhook":
            return settings_at(f"http://{POWER_HOST}", BOXES_NAMED)
        case _:
            return ProviderSettings(endpoint=url)


def entries(urls: dict[str, str]) -> list[dict[str, Any]]:
    """`spec.providers` of a class that buys from all of them."""
    return [{"name": name, "settings": written(settings_of(name, url))} for name, url in urls.items()]


def written(settings: ProviderSettings) -> dict[str, Any]:
    """As it stands in a manifest: what is not set is not there."""
    whole = msgspec.to_builtins(settings)
    plain = msgspec.to_builtins(ProviderSettings())
    return {name: value for name, value in whole.items() if value != plain.get(name)}


def a_device_plugin() -> dict[str, Any]:
    labels = {"app": "nvidia-device-plugin"}
    pod = {"containers": [{"name": "plugin", "image": "k8s-device-plugin:any"}], "tolerations": ANY_TAINT}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "nvidia-device-plugin", "namespace": "kube-system"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
    }
