"""Rules about the private network of a class: which backend is meant, and that no setting contradicts another.

They look at a GPUNodeClass's spec as JSON. Tailscale settings may stand at the top of it, and, as in early manifests,
inside a talosConfig of the class or of one of its providers.
"""

from typing import Any

from tgp.api import cel
from tgp.api.field import Rule


def _wireguards(spec: dict[str, Any]) -> bool:
    """Is a WireGuard tunnel configured, for the class or for one of its providers?"""
    places = [spec, *spec["providers"]]
    return any("wireGuardConfig" in place.get("talosConfig", {}) for place in places)


def _tailscales(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Every tailscaleConfig in the class: its own first, then those inside a talosConfig."""
    inner = [place.get("talosConfig", {}) for place in (spec, *spec["providers"])]
    return [place["tailscaleConfig"] for place in (spec, *inner) if "tailscaleConfig" in place]


_CEL_WIREGUARD = (
    "((has(self.talosConfig) && has(self.talosConfig.wireGuardConfig))"
    " || self.providers.exists(p, has(p.talosConfig) && has(p.talosConfig.wireGuardConfig)))"
)
_CEL_TAILSCALE = (
    "(has(self.tailscaleConfig) || (has(self.talosConfig) && has(self.talosConfig.tailscaleConfig))"
    " || self.providers.exists(p, has(p.talosConfig) && has(p.talosConfig.tailscaleConfig)))"
)
_CEL_HEADSCALE = (
    "((has(self.tailscaleConfig) && has(self.tailscaleConfig.loginServer))"
    " || (has(self.talosConfig) && has(self.talosConfig.tailscaleConfig) && "
    "has(self.talosConfig.tailscaleConfig.loginServer))"
    " || self.providers.exists(p, has(p.talosConfig) && has(p.talosConfig.tailscaleConfig)"
    " && has(p.talosConfig.tailscaleConfig.loginServer)))"
)


def _backend(spec: dict[str, Any]) -> str | None:
    backend: str | None = spec.get("networking", {}).get("backend")
    return backend


NETWORKING_RULES = (
    Rule(
        "!has(self.networking) || !has(self.networking.backend) || self.networking.backend != 'wireguard' || "
        f"{_CEL_WIREGUARD}",
        "wireguard needs talosConfig.wireGuardConfig",
        lambda self, _: _backend(self) != "wireguard" or _wireguards(self),
        field=".networking.backend",
    ),
    Rule(
        "!has(self.networking) || !has(self.networking.backend) || self.networking.backend != 'headscale' || "
        f"{_CEL_HEADSCALE}",
        "headscale needs tailscaleConfig.loginServer",
        lambda self, _: _backend(self) != "headscale" or any("loginServer" in config for config in _tailscales(self)),
        field=".networking.backend",
    ),
    Rule(
        f"(has(self.networking) && has(self.networking.backend)) || !({_CEL_WIREGUARD} && {_CEL_TAILSCALE})",
        "wireGuardConfig and tailscaleConfig are both given: set networking.backend to the one that is meant",
        lambda self, _: _backend(self) is not None or not (_wireguards(self) and _tailscales(self)),
        field=".networking",
        reason="FieldValueRequired",
    ),
)

_TAILSCALE_VALUES = ("hostname", "ephemeral", "acceptRoutes", "loginServer", "tags", "advertiseRoutes")
# Compared part by part: CEL takes two objects for two types. A part with a default may be absent in items of lists, and
# providers are such.
_TAILSCALE_REFS: dict[str, dict[str, str]] = {
    "apiKeySecretRef": {"name": "", "key": ""},
    "oauthCredentialsSecretRef": {"name": "", "clientIdKey": "client-id", "clientSecretKey": "client-secret"},
    "authKeySecretRef": {"name": "", "key": ""},
}


def _part(ref: str, part: str, usual: str) -> str:
    """In CEL: a part of a reference, or what it is by default."""
    field = f"{ref}.{part}" if part else ref
    return f"(has({field}) ? {field} : {cel.quoted(usual)})" if usual else field


def _agrees(name: str) -> Rule:
    """Where a Tailscale setting is given at the top and inside a talosConfig, both say the same."""
    parts = _TAILSCALE_REFS.get(name, {})

    def compare(left: Any, right: Any) -> bool:
        same = (left.get(part, usual) == right.get(part, usual) for part, usual in parts.items())
        return all(same) if parts else cel.same_set(left, right)

    def within(owner: str) -> str:
        inner = f"{owner}.talosConfig.tailscaleConfig"
        equal = " && ".join(
            f"{_part(f'{inner}.{name}', part, usual)} == self.tailscaleConfig.{name}{part and f'.{part}'}"
            for part, usual in (parts or {"": ""}).items()
        )
        return f"!has({owner}.talosConfig) || !has({inner}) || !has({inner}.{name}) || ({equal})"

    def holds(self: dict[str, Any], _old: object) -> bool:
        top = self.get("tailscaleConfig", {})
        if name not in top:
            return True
        inner = [place.get("talosConfig", {}).get("tailscaleConfig", {}) for place in (self, *self["providers"])]
        return all(name not in config or compare(config[name], top[name]) for config in inner)

    return Rule(
        f"!has(self.tailscaleConfig) || !has(self.tailscaleConfig.{name})"
        f" || (({within('self')}) && self.providers.all(p, {within('p')}))",
        f"talosConfig.tailscaleConfig.{name} contradicts it: set it once, here",
        holds,
        field=f".tailscaleConfig.{name}",
    )


AGREEMENT_RULES = tuple(_agrees(name) for name in (*_TAILSCALE_VALUES, *_TAILSCALE_REFS))
