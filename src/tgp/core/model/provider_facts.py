"""Facts about a provider that are known before any call. Each stands in the provider's own folder, and nowhere else."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import msgspec

from tgp.api.common import DEFAULT_KEYS
from tgp.core.model.offer import BootMode


class Rate(msgspec.Struct, frozen=True):
    """At most `calls` in any `per`, evenly spaced after a burst of `burst`."""

    calls: int
    per: timedelta
    burst: int = 1


@dataclass(frozen=True, slots=True)
class CloudFacts:
    """The adapter's README has the source of each."""

    provider: str
    title: str  # display name: Acme Cloud
    boot: tuple[BootMode, ...]  # of its offers
    endpoint: str  # the usual address; empty: it has none of its own
    listing_lag: timedelta  # how long a launched machine may be missing from its lists
    launch_timeout: timedelta = timedelta(seconds=30)  # of the request that pays: it may be carried out this late
    start_timeout: timedelta = timedelta(minutes=10)  # until a machine runs; twice as long for one of many GPUs
    other_key_variables: tuple[str, ...] = ()  # environment variables of the same key in other tools
    key_file_variable: str = ""  # … and of the path of a file that holds it; empty: there is none
    public_offers: bool = False  # can prices be read without a key?
    sells_spot: bool = False
    tells_billed_price: bool = True  # does an instance say what it costs?
    longest_run: timedelta | None = None  # the longest `max_run` it accepts; None: it ends no machine by itself
    billing_step: timedelta = timedelta(microseconds=1)  # a started step is billed whole; the default: unknown
    user_data_bytes: int = 16 << 10
    text_user_data: bool = False  # it takes no compressed bytes
    runs_scripts: bool = False  # user data is a script; else cloud-init reads it
    talos_platform: str = "metal"  # Talos's own name of it, where it boots Talos images
    imported_image: str = ""  # the image factory's file that it imports, with {arch}; empty: it keeps no images of ours
    refresh_every: timedelta = timedelta(minutes=2)
    idle_refresh_every: timedelta | None = None  # while no request waits for its offers; None: the same
    rates: Mapping[str, Rate] = field(default_factory=dict)  # per verb; "" is for all together
    notes: tuple[str, ...] = ()  # unconfirmed facts that may cost money: shown by `tgp check`

    @property
    def key_variable(self) -> str:
        """The name of its API key, in Secrets and terminals; empty: it needs none."""
        return DEFAULT_KEYS.get(self.provider, "")
