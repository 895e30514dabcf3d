"""What a maintainer asks for, read from the environment; and every reason not to start."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from tgp.adapters.clouds.registry import facts_of
from tgp.api.common import PROVIDERS, canonical_provider
from tgp.api.field_error import Invalid
from tgp.api.nodeclass import ProviderSettings
from tgp.api.values import microusd, usd
from tgp.core.model.offer import BootMode
from tgp.core.model.source import source_of
from tgp.services.credentials import ProviderAccess, of_environment

SETTINGS = "SETTINGS"
MOST_MICROUSD = 20_000_000  # a larger cap is a slip of the pen: no walk needs it
NOT_WALKED = {
    "webhook": "your own machines are not rented",
    "simulated": "nothing is real there: make run shows the same walk",
    **{
        name: "it starts containers, and the operator buys none to boot Talos"
        for name in PROVIDERS
        if set(facts_of(name).boot) == {BootMode.CONTAINER}
    },
}


class Refusal(Exception):
    """No provider was called. The text says what is missing, all of it at once."""


@dataclass(frozen=True, slots=True)
class Asked:
    counter: ProviderAccess  # the provider and the key
    cap_microusd: int  # what an hour must stay below
    yes: bool = False  # False: say what would be done, and do nothing

    @property
    def provider(self) -> str:
        return self.counter.source.provider

    @property
    def settings(self) -> ProviderSettings:
        return self.counter.source.settings


def read(environ: Mapping[str, str]) -> Asked:
    missing = []
    provider = canonical_provider(environ.get("PROVIDER", "").strip())
    if provider not in PROVIDERS:
        sold = ", ".join(name for name in PROVIDERS if name not in NOT_WALKED)
        missing.append(f"PROVIDER: one of {sold}")
    elif provider in NOT_WALKED:
        missing.append(f"PROVIDER={provider}: {NOT_WALKED[provider]}")
    cap = _cap(environ.get("MAX_USD", "").strip(), missing)
    settings = _settings(environ.get(SETTINGS, ""), missing)
    counter = None
    if provider in PROVIDERS and provider not in NOT_WALKED:
        counter = counter_of(provider, environ, settings)
        if counter.keyless:
            missing.append(f"{counter.facts.key_variable}: the key of the account that pays")
    if missing or counter is None:
        raise Refusal("test-live rents a real machine, and does not start without\n  " + "\n  ".join(missing))
    return Asked(counter, cap, environ.get("YES", "") == "1")


def counter_of(provider: str, environ: Mapping[str, str], settings: ProviderSettings) -> ProviderAccess:
    """The provider as it can be asked with the key in the usual variable."""
    (found,) = of_environment((provider,), environ)
    return ProviderAccess(source_of(provider, "", "", settings), found.facts, found.key)


def settings_in(environ: Mapping[str, str]) -> ProviderSettings:
    """Read strictly: an unknown name would be a setting that silently does nothing."""
    written = msgspec.json.decode(environ.get(SETTINGS) or "{}", type=dict[str, Any])
    known = {field.encode_name for field in msgspec.structs.fields(ProviderSettings)}
    if unknown := sorted(set(written) - known):
        raise msgspec.ValidationError(f"there is no setting {unknown[0]}")
    return msgspec.convert(written, ProviderSettings)


def _cap(text: str, missing: list[str]) -> int:
    if not text:
        missing.append("MAX_USD: what an hour of the machine must stay below, such as MAX_USD=1")
        return 0
    try:
        cap = microusd(text, "MAX_USD")
    except Invalid as error:
        missing.append(f"MAX_USD: {error.problems[0].body}")
        return 0
    if not 0 < cap <= MOST_MICROUSD:
        missing.append(f"MAX_USD: more than 0 and at most {usd(MOST_MICROUSD)}")
    return cap


def _settings(text: str, missing: list[str]) -> ProviderSettings:
    """`spec.providers[].settings` of a class, where a provider needs some."""
    try:
        return settings_in({SETTINGS: text})
    except msgspec.DecodeError as error:
        missing.append(f"{SETTINGS}: settings of the provider as JSON, such as {{}}: {error}")
        return ProviderSettings()
