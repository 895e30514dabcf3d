"""Which sources a class buys from."""

from tgp.api.common import DEFAULT_KEYS, PROVIDERS, canonical_provider
from tgp.api.nodeclass import REQUIRED_SETTINGS, GPUNodeClass, ProviderConfig
from tgp.api.owned_machine import PowerMachine
from tgp.core.model.account_access import AccountAccess, accesses_of
from tgp.core.model.class_secrets import OPERATOR_SECRET
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.source import Source, source_of


def source_for(provider: ProviderConfig) -> Source:
    name = canonical_provider(provider.name)
    if name not in DEFAULT_KEYS:
        return source_of(name, "", "", provider.settings)
    ref = provider.credentials_ref
    if ref is None:
        return source_of(name, OPERATOR_SECRET, DEFAULT_KEYS[name], provider.settings)
    return source_of(name, ref.name, ref.key, provider.settings)


def lacking(source: Source) -> str:
    """A setting that the provider requires and the class does not have; empty: none is missing."""
    setting, why = REQUIRED_SETTINGS.get(source.provider, ("", ""))
    return f"settings.{why}" if setting and getattr(source.settings, setting) is None else ""


def sources_of(node_class: GPUNodeClass) -> dict[str, Source]:
    """Of the enabled providers, by the provider's name as the class writes it.

    One that only a newer version knows is left to that version.
    """
    return {
        provider.name: source_for(provider)
        for provider in node_class.spec.providers
        if provider.enabled and canonical_provider(provider.name) in PROVIDERS
    }


def machines_of(node_class: GPUNodeClass) -> dict[str, PowerMachine]:
    """The machines you own of a class, by name; also of a provider that is disabled."""
    entries = (each.settings for each in node_class.spec.providers if each.settings is not None)
    return {machine.name: machine for settings in entries for machine in settings.machines}


def accesses_of_class(record: KubeObject[GPUNodeClass] | None) -> dict[str, AccountAccess]:
    """By name. Also of disabled entries: machines bought there still exist."""
    if record is None or record.value is None:
        return {}
    found: dict[str, AccountAccess] = {}
    for provider in record.value.spec.providers:
        source = source_for(provider)
        if source.provider in PROVIDERS:  # an entry of a newer version is ignored
            # Each owned machine is an account of its own: a silent one must not make the others unknown.
            found.update({access.name: access for access in accesses_of(source)})
    return found
