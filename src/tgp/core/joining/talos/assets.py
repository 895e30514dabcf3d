"""Which file of the image factory a machine boots, by boot mode and provider."""

from tgp.core.model.offer import BootMode
from tgp.core.model.provider_facts import CloudFacts

NOCLOUD = "nocloud"


def platform_for(boot: BootMode, facts: CloudFacts) -> str:
    """The Talos platform of the machine, which decides where Talos reads its config."""
    return NOCLOUD if boot is BootMode.TAKEOVER else facts.talos_platform


def asset_for(boot: BootMode, facts: CloudFacts, arch: str = "amd64") -> str:
    """The disk image to fetch from the factory; empty: none is fetched.

    Takeovers unpack it themselves. Where a provider imports none, the administrator does.
    """
    if boot is BootMode.TAKEOVER:
        return f"{NOCLOUD}-{arch}.raw.xz"
    return facts.imported_image.format(arch=arch) if boot is BootMode.NATIVE else ""
