"""Whether a provider's machines could boot with a config: the boot mode, and how much user data they accept."""

from dataclasses import dataclass

from tgp.core.joining.talos.user_data import DoesNotFit, user_data_for
from tgp.core.model.boot_image import BootImage
from tgp.core.model.offer import BootMode
from tgp.core.model.provider_facts import CloudFacts
from tgp.core.model.talos import TalosVersion

_ANY_SCHEMATIC = "0" * 64  # as long as a real one


@dataclass(frozen=True, slots=True)
class Fit:
    provider: str
    boots: bool
    words: str  # how much of the user data is used; or why not
    too_large: bool = False  # a smaller config would fit


def fit(facts: CloudFacts, *, text: str, version: TalosVersion) -> Fit:
    """`text`: a config of the size a machine would get."""
    provider, modes, limit = facts.provider, facts.boot, facts.user_data_bytes
    mode = next((each for each in (BootMode.NATIVE, BootMode.TAKEOVER) if each in modes), None)
    if mode is None and BootMode.POWER in modes:
        return Fit(provider, boots=False, words="boots nothing: the machines keep their installed Talos")
    if mode is None:
        return Fit(provider, boots=False, words=f"cannot boot Talos: {facts.title} rents containers")
    raw = f"https://factory.talos.dev/image/{_ANY_SCHEMATIC}/{version}/nocloud-amd64.raw.xz"
    image = BootImage(version, _ANY_SCHEMATIC, "", raw_url=raw)
    try:
        wrapped = user_data_for(mode, facts, text, image, node_name="gpu-0123abcd")
    except DoesNotFit as error:
        return Fit(provider, boots=False, words=str(error), too_large=True)
    of = f" of {limit:,}" if limit else ""
    return Fit(provider, boots=True, words=f"boots it: {len(wrapped.user_data):,}{of} bytes of user data")
