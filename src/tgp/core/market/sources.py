"""Which sources a class buys from."""

from tgp.api.common import PROVIDERS, canonical_provider
from tgp.api.nodeclass import GPUNodeClass, ProviderConfig
from tgp.core.model.class_secrets import DEFAULT_KEYS, OPERATOR_SECRET
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
    if source.provider == "lambdalabs" and source.settings.ssh_key_name is None:
        return "settings.sshKeyName is not set, and Lambda starts no machine without an SSH key of the account"
    if source.provider == "gcp" and source.settings.image is None:
        return "settings.image is not set: name the Talos image that was uploaded to the project"
    return ""


def sources_of(node_class: GPUNodeClass) -> dict[str, Source]:
    """Of the enabled providers, by the provider's name as the class writes it.

    One that only a newer version knows is left to that version.
    """
    return {
        provider.name: source_for(provider)
        for provider in node_class.spec.providers
        if provider.enabled and canonical_provider(provider.name) in PROVIDERS
    }
