"""Whether a provider's machines could boot with a config: the boot mode, and how much user data they accept."""

from collections.abc import Collection
from dataclasses import dataclass

from tgp.core.joining.talos.user_data import DoesNotFit, user_data_for
from tgp.core.model.boot_image import BootImage
from tgp.core.model.offer import BootMode
from tgp.core.model.talos import TalosVersion

_ANY_SCHEMATIC = "0" * 64  # as long as a real one


@dataclass(frozen=True, slots=True)
class Fit:
    provider: str
    boots: bool
    words: str  # how much of the user data is used; or why not
    too_large: bool = False  # a smaller config would fit


def fit(provider: str, title: str, modes: Collection[BootMode], *, limit: int, text: str, version: TalosVersion) -> Fit:
    """`limit`: the bytes of user data that the provider accepts. `text`: a config of the size a machine would get."""
    mode = next((each for each in (BootMode.NATIVE, BootMode.TAKEOVER) if each in modes), None)
    if mode is None and BootMode.POWER in modes:
        return Fit(provider, boots=False, words="keeps the Talos on its machines")
    if mode is None:
        return Fit(provider, boots=False, words=f"cannot boot Talos: {title} rents containers")
    raw = f"https://factory.talos.dev/image/{_ANY_SCHEMATIC}/{version}/nocloud-amd64.raw.xz"
    image = BootImage(version, _ANY_SCHEMATIC, "", raw_url=raw)
    try:
        wrapped = user_data_for(mode, provider, text, image, limit=limit, node_name="gpu-0123abcd")
    except DoesNotFit as error:
        return Fit(provider, boots=False, words=str(error), too_large=True)
    of = f" of {limit:,}" if limit else ""
    return Fit(provider, boots=True, words=f"boots it: {len(wrapped.user_data):,}{of} bytes of user data")
