"""A machine config as each kind of provider is handed it, within what the provider takes."""

import gzip
from dataclasses import dataclass, field

from tgp.core.model.boot_image import BootImage
from tgp.core.model.offer import CONTAINER_ONLY, BootMode
from tgp.core.rules.talos import cidata, takeover

TEXT_ONLY = frozenset({"gcp"})  # its metadata are texts, so that nothing packed can be one
RUNS_SCRIPTS = frozenset({"paperspace"})  # the others that are taken over have cloud-init


class DoesNotFit(Exception):
    """The config is larger than the provider takes; the text says by how much, and what to do."""


@dataclass(frozen=True, slots=True)
class Wrapped:
    """What an order carries. It may hold join secrets, so it shows nothing of them."""

    user_data: bytes = field(default=b"", repr=False)
    image: str = ""


def wrap(
    boot: BootMode, provider: str, config_text: str, image: BootImage, *, limit: int, node_name: str = ""
) -> Wrapped:
    """`limit`: the bytes of user data that the provider takes (`CloudFacts.user_data_bytes`). Raises DoesNotFit."""
    match boot:
        case BootMode.NATIVE:
            return Wrapped(_native(provider, config_text.encode(), limit), image.image)
        case BootMode.TAKEOVER:
            write = takeover.start_up_script if provider in RUNS_SCRIPTS else takeover.cloud_config
            try:
                text = write(config_text, image, node_name)
            except (cidata.TooMuch, takeover.BadAddress) as error:
                raise DoesNotFit(f"the machine config cannot be handed to {provider}: {error}") from error
            return Wrapped(_within(provider, text, limit), image.image)
        case BootMode.CONTAINER:
            raise DoesNotFit(CONTAINER_ONLY)
        case BootMode.POWER:
            return Wrapped()  # it is a member of the cluster already


def _native(provider: str, config: bytes, limit: int) -> bytes:
    """As it is where it fits; else packed, which Talos notices by itself."""
    if len(config) <= limit or provider in TEXT_ONLY:
        return _within(provider, config, limit)
    return _within(provider, gzip.compress(config, 9, mtime=0), limit)


def _within(provider: str, data: bytes, limit: int) -> bytes:
    if limit and len(data) > limit:
        raise DoesNotFit(
            f"{provider} takes user data of at most {limit} bytes, and with this machine config it has {len(data)}: "
            "shorten the template (comments, certificates, files)"
        )
    return data
