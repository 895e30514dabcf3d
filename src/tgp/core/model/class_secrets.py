"""Which keys of which Secrets a class refers to: by name, never by value."""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from tgp.api.common import DEFAULT_KEYS, OAuthSecretRef, SecretKeyRef, canonical_provider
from tgp.api.nodeclass import GPUNodeClass, ProviderConfig
from tgp.api.talos import TailscaleConfig, TalosConfig, WireGuardConfig

OPERATOR_SECRET = "tgp-operator-secret"  # noqa: S105 - the name of a Secret, not a secret


class WantedKey(msgspec.Struct, frozen=True):
    """One key of one Secret in the operator's namespace, and the field that refers to it."""

    secret: str
    key: str
    path: str
    provider: str = ""  # not empty: the API key of that provider
    namespace: str = ""  # what the reference says; empty: nothing

    def found_in(self, present: Mapping[str, frozenset[str]]) -> bool:
        return self.key in present.get(self.secret, frozenset())


def how_to_supply(namespace: str, secret: str, *keys: str, there: bool, from_file: bool = False) -> str:
    """The command that adds keys to a Secret: to a new one, or one that is `there`. The values are placeholders."""
    if there:
        values = ",".join(f'"{key}":"…"' for key in keys)
        return f"""kubectl -n {namespace} patch secret {secret} --type merge -p '{{"stringData":{{{values}}}}}'"""
    sources = " ".join(f"--from-file={key}=FILE" if from_file else f"--from-literal={key}=…" for key in keys)
    return f"kubectl -n {namespace} create secret generic {secret} {sources}"


def wanted_by(node_class: GPUNodeClass, backend: str) -> tuple[WantedKey, ...]:
    """Every key that buying and joining would need, in the order of the fields."""
    spec = node_class.spec
    wanted: list[WantedKey] = []
    for place, provider in enumerate(spec.providers):
        wanted += _of_provider(provider, f"spec.providers[{place}]")
    if spec.talos_config is not None:
        wanted += _of_talos(spec.talos_config, "spec.talosConfig")
    if spec.tailscale_config is not None:
        wanted += _of_tailscale(spec.tailscale_config, "spec.tailscaleConfig")
    wanted += _default_oauth(node_class, backend)
    return tuple(dict.fromkeys(wanted))


def _of_provider(provider: ProviderConfig, path: str) -> Iterator[WantedKey]:
    name = canonical_provider(provider.name)
    if provider.enabled and name in DEFAULT_KEYS:
        ref = provider.credentials_ref
        if ref is None:
            yield WantedKey(OPERATOR_SECRET, DEFAULT_KEYS[name], f"{path}.credentialsRef", provider.name)
        else:
            yield WantedKey(ref.name, ref.key, f"{path}.credentialsRef", provider.name, ref.namespace or "")
    if provider.talos_config is not None:
        yield from _of_talos(provider.talos_config, f"{path}.talosConfig")
    for place, machine in enumerate(provider.settings.machines if provider.settings else ()):
        at = f"{path}.settings.machines[{place}]"
        yield from _refs(
            (machine.headers_secret_ref, f"{at}.headersSecretRef"),
            (machine.signing_secret_ref, f"{at}.signingSecretRef"),
        )


def _of_talos(config: TalosConfig, path: str) -> Iterator[WantedKey]:
    yield from _refs((config.machine_config_secret_ref, f"{path}.machineConfigSecretRef"))
    if config.wire_guard_config is not None:
        yield from _of_wireguard(config.wire_guard_config, f"{path}.wireGuardConfig")
    if config.tailscale_config is not None:
        yield from _of_tailscale(config.tailscale_config, f"{path}.tailscaleConfig")


def _of_wireguard(config: WireGuardConfig, path: str) -> Iterator[WantedKey]:
    return _refs(
        (config.private_key_secret_ref, f"{path}.privateKeySecretRef"),
        (config.public_key_secret_ref, f"{path}.publicKeySecretRef"),
        (config.server_endpoint_secret_ref, f"{path}.serverEndpointSecretRef"),
        (config.allowed_ips_secret_ref, f"{path}.allowedIPsSecretRef"),
        (config.address_secret_ref, f"{path}.addressSecretRef"),
    )


def _of_tailscale(config: TailscaleConfig, path: str) -> Iterator[WantedKey]:
    yield from _refs(
        (config.api_key_secret_ref, f"{path}.apiKeySecretRef"), (config.auth_key_secret_ref, f"{path}.authKeySecretRef")
    )
    if config.oauth_credentials_secret_ref is not None:
        yield from _of_oauth(config.oauth_credentials_secret_ref, f"{path}.oauthCredentialsSecretRef")


def _of_oauth(ref: OAuthSecretRef, path: str) -> Iterator[WantedKey]:
    for key in (ref.client_id_key, ref.client_secret_key):
        yield WantedKey(ref.name, key, path, namespace=ref.namespace or "")


def _default_oauth(node_class: GPUNodeClass, backend: str) -> Iterator[WantedKey]:
    """With Tailscale and no credentials named, the OAuth client in the operator's own Secret is used."""
    named = any(
        config.oauth_credentials_secret_ref is not None or config.auth_key_secret_ref is not None
        for config in tailscale_configs(node_class)
    )
    if backend == "tailscale" and not named:
        default = OAuthSecretRef(name=OPERATOR_SECRET)
        yield from _of_oauth(default, "spec.tailscaleConfig.oauthCredentialsSecretRef")


def tailscale_configs(node_class: GPUNodeClass) -> tuple[TailscaleConfig, ...]:
    """Every place of a class that configures Tailscale: its own, then those inside a talosConfig."""
    spec = node_class.spec
    talos = (spec.talos_config, *(provider.talos_config for provider in spec.providers))
    configs = (spec.tailscale_config, *(config.tailscale_config for config in talos if config is not None))
    return tuple(config for config in configs if config is not None)


def _refs(*refs: tuple[SecretKeyRef | None, str]) -> Iterator[WantedKey]:
    for ref, path in refs:
        if ref is not None:
            yield WantedKey(ref.name, ref.key, path, namespace=ref.namespace or "")


def names(wanted: Iterable[WantedKey]) -> tuple[str, ...]:
    """The Secrets to read, each once."""
    return tuple(dict.fromkeys(want.secret for want in wanted))
