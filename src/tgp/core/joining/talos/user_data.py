"""A machine config as user data for each kind of provider, within the provider's limit."""

import gzip
from dataclasses import dataclass, field

from tgp.core.joining.talos import fat_volume, takeover
from tgp.core.model.boot_image import BootImage
from tgp.core.model.offer import CONTAINER_ONLY, BootMode
from tgp.core.model.provider_facts import CloudFacts


class DoesNotFit(Exception):
    """The config exceeds the provider's limit; the text says by how much, and what to do."""


@dataclass(frozen=True, slots=True)
class UserData:
    """User data of an order. It may hold join secrets, so `repr` shows nothing."""

    user_data: bytes = field(default=b"", repr=False)
    image: str = ""


def user_data_for(
    boot: BootMode, facts: CloudFacts, config_text: str, image: BootImage, *, node_name: str = ""
) -> UserData:
    """As the provider accepts it. Raises DoesNotFit."""
    match boot:
        case BootMode.NATIVE:
            return UserData(_native(facts, config_text.encode()), image.image)
        case BootMode.TAKEOVER:
            write = takeover.start_up_script if facts.runs_scripts else takeover.cloud_config
            try:
                text = write(config_text, image, node_name)
            except (fat_volume.TooMuch, takeover.BadAddress) as error:
                raise DoesNotFit(f"the machine config cannot be sent to {facts.provider}: {error}") from error
            return UserData(_within(facts, text), image.image)
        case BootMode.CONTAINER:
            raise DoesNotFit(CONTAINER_ONLY)
        case BootMode.POWER:
            return UserData()  # it is a member of the cluster already


def _native(facts: CloudFacts, config: bytes) -> bytes:
    """As it is if it fits; else compressed, which Talos detects."""
    if len(config) <= facts.user_data_bytes or facts.text_user_data:
        return _within(facts, config)
    return _within(facts, gzip.compress(config, 9, mtime=0))


def _within(facts: CloudFacts, data: bytes) -> bytes:
    limit = facts.user_data_bytes
    if limit and len(data) > limit:
        raise DoesNotFit(
            f"{facts.provider} accepts at most {limit} bytes of user data, and this machine config makes {len(data)}: "
            "shorten the template (comments, certificates, files)"
        )
    return data
