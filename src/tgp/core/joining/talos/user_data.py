"""A machine config as user data for each kind of provider, within the provider's limit."""

import gzip
from dataclasses import dataclass, field

from tgp.core.joining.talos import fat_volume, takeover
from tgp.core.model.boot_image import BootImage
from tgp.core.model.offer import CONTAINER_ONLY, BootMode

TEXT_ONLY = frozenset({"gcp"})  # its metadata are strings, so compressed bytes are not possible
RUNS_SCRIPTS = frozenset({"paperspace"})  # other takeover providers have cloud-init


class DoesNotFit(Exception):
    """The config exceeds the provider's limit; the text says by how much, and what to do."""


@dataclass(frozen=True, slots=True)
class UserData:
    """User data of an order. It may hold join secrets, so `repr` shows nothing."""

    user_data: bytes = field(default=b"", repr=False)
    image: str = ""


def user_data_for(
    boot: BootMode, provider: str, config_text: str, image: BootImage, *, limit: int, node_name: str = ""
) -> UserData:
    """`limit`: the bytes of user data that the provider accepts (`CloudFacts.user_data_bytes`). Raises DoesNotFit."""
    match boot:
        case BootMode.NATIVE:
            return UserData(_native(provider, config_text.encode(), limit), image.image)
        case BootMode.TAKEOVER:
            write = takeover.start_up_script if provider in RUNS_SCRIPTS else takeover.cloud_config
            try:
                text = write(config_text, image, node_name)
            except (fat_volume.TooMuch, takeover.BadAddress) as error:
                raise DoesNotFit(f"the machine config cannot be sent to {provider}: {error}") from error
            return UserData(_within(provider, text, limit), image.image)
        case BootMode.CONTAINER:
            raise DoesNotFit(CONTAINER_ONLY)
        case BootMode.POWER:
            return UserData()  # it is a member of the cluster already


def _native(provider: str, config: bytes, limit: int) -> bytes:
    """As it is if it fits; else compressed, which Talos detects."""
    if len(config) <= limit or provider in TEXT_ONLY:
        return _within(provider, config, limit)
    return _within(provider, gzip.compress(config, 9, mtime=0), limit)


def _within(provider: str, data: bytes, limit: int) -> bytes:
    if limit and len(data) > limit:
        raise DoesNotFit(
            f"{provider} accepts at most {limit} bytes of user data, and this machine config makes {len(data)}: "
            "shorten the template (comments, certificates, files)"
        )
    return data
