"""What the simulated Lambda boots from: its own Linux, for both kinds of processors, in every region."""

from collections.abc import Iterator
from typing import Any

from tgp.sim.clouds.lambdalabs.answers import region
from tgp.sim.clouds.lambdalabs.catalogue import REGIONS


def _images() -> Iterator[dict[str, Any]]:
    for number, (place, arch) in enumerate((place, arch) for place in REGIONS for arch in ("x86_64", "arm64")):
        yield {
            "id": f"{number:08x}-5555-4444-8888-0123456789ab",
            "created_time": "2025-10-01T00:00:00+00:00",
            "updated_time": "2025-11-01T00:00:00+00:00",
            "name": f"Lambda Stack 24.04 {arch}",
            "description": "Ubuntu 24.04 with drivers and frameworks",
            "family": "lambda-stack-24-04",
            "version": "24.4.7",
            "architecture": arch,
            "region": region(place),
        }


IMAGES = tuple(_images())


def is_there(chosen: dict[str, str], place: str) -> bool:
    """Is there such an image (by its id or its family) in that region?"""
    return any(image["region"]["name"] == place and chosen.items() <= image.items() for image in IMAGES)
