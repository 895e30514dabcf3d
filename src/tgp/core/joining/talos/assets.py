"""Which file of the image factory a machine boots, by boot mode and provider."""

from tgp.core.model.offer import BootMode

NOCLOUD, METAL = "nocloud", "metal"
PLATFORMS = {"vultr": "vultr", "gcp": "gcp"}  # Talos's own names of those that boot it by themselves


def platform_for(boot: BootMode, provider: str) -> str:
    """The Talos platform of the machine, which decides where Talos reads its config."""
    if boot is BootMode.TAKEOVER:
        return NOCLOUD
    return PLATFORMS.get(provider, METAL)


def asset_for(boot: BootMode, provider: str, arch: str = "amd64") -> str:
    """The disk image to fetch from the factory; empty: none is fetched.

    Takeovers unpack it themselves; Vultr's import needs it uncompressed; at Google the administrator imports it.
    """
    if boot is BootMode.TAKEOVER:
        return f"{NOCLOUD}-{arch}.raw.xz"
    if boot is BootMode.NATIVE and provider == "vultr":
        return f"vultr-{arch}.raw"
    return ""
