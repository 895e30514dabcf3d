"""Which mesh the machines of a class join, and under which name."""

from collections.abc import Iterator
from typing import Any

from tgp.api.common import SecretKeyRef, canonical_provider
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.api.talos import TailscaleConfig, WireGuardConfig
from tgp.core.joining.talos.settings import talos_of
from tgp.core.model.class_secrets import OPERATOR_SECRET, tailscale_configs
from tgp.core.model.mesh import IN_A_TAILNET, Backend, MeshSettings, MeshStatus, Ref, TunnelSettings
from tgp.core.model.secret import Secret

LONGEST_HOSTNAME = 63  # a DNS label
SUFFIX_KEPT = 9  # characters at a node name's end that are unique: -3f2a91bc
CLIENT_ID, CLIENT_SECRET = "client-id", "client-secret"


def mesh_of(node_class: GPUNodeClass, provider: str, request: GPURequest | None, default: str) -> MeshSettings:
    """Of machines at this provider. `request` None: of any of them. `default`: the operator's own backend."""
    backend = Backend(backend_of(node_class, default) or Backend.NONE)
    match backend:
        case Backend.TAILSCALE | Backend.HEADSCALE:
            return _tailnet(backend, node_class, provider, request)
        case Backend.WIREGUARD:
            return MeshSettings(backend, tunnel=_tunnel(node_class, provider, request))
        case Backend.KUBESPAN | Backend.NONE:
            return MeshSettings(backend)


def hostname_for(node_class: GPUNodeClass, provider: str, request: GPURequest | None, node_name: str) -> str:
    """The hostname of a machine in the mesh: exactly as in its request, else its Node's name after the class's
    prefix.
    """
    said = request.spec.talos_config.tailscale_config if request is not None and request.spec.talos_config else None
    if said is not None and said.hostname:
        return said.hostname.lower()
    prefix = _first(_configs(node_class, provider), "hostname")
    label = node_name.replace(".", "-")
    whole = f"{prefix.lower()}-{label}" if prefix else label
    if len(whole) <= LONGEST_HOSTNAME:
        return whole
    return whole[: LONGEST_HOSTNAME - SUFFIX_KEPT].rstrip("-") + whole[-SUFFIX_KEPT:]


def name_in(
    settings: MeshSettings, node_class: GPUNodeClass, request: GPURequest | None, where: tuple[str, str]
) -> str:
    """The hostname of a machine in its mesh; `where`: its provider, and its Node's name.

    In a tailnet users choose names; in a tunnel only tgp does, so that no two machines share one.
    """
    provider, node_name = where
    if settings.backend in IN_A_TAILNET:
        return hostname_for(node_class, provider, request, node_name)
    return node_name


def _tailnet(backend: Backend, node_class: GPUNodeClass, provider: str, request: GPURequest | None) -> MeshSettings:
    configs = list(_configs(node_class, provider))
    said = request.spec.talos_config.tailscale_config if request is not None and request.spec.talos_config else None
    oauth = _first(configs, "oauth_credentials_secret_ref")
    auth_key = _ref(_first(configs, "auth_key_secret_ref"))
    ours = backend is Backend.TAILSCALE and auth_key is None
    ephemeral = _first(configs, "ephemeral")
    return MeshSettings(
        backend,
        login_server=(_first(configs, "login_server") or "").rstrip("/"),
        tags=(said.tags if said is not None else ()) or _first(configs, "tags") or (),
        ephemeral=True if ephemeral is None else ephemeral,
        accept_routes=bool(_first(configs, "accept_routes")),
        advertise_routes=_first(configs, "advertise_routes") or (),
        client_id=Ref(oauth.name, oauth.client_id_key) if oauth else Ref(OPERATOR_SECRET, CLIENT_ID) if ours else None,
        client_secret=(
            Ref(oauth.name, oauth.client_secret_key) if oauth else Ref(OPERATOR_SECRET, CLIENT_SECRET) if ours else None
        ),
        api_key=_ref(_first(configs, "api_key_secret_ref")),
        auth_key=auth_key,
    )


def _configs(node_class: GPUNodeClass, provider: str) -> Iterator[TailscaleConfig]:
    """Where Tailscale may be configured, in order of precedence."""
    spec = node_class.spec
    own = (each.talos_config for each in spec.providers if canonical_provider(each.name) == provider)
    inner = (config.tailscale_config for config in (*own, spec.talos_config) if config is not None)
    return (config for config in (spec.tailscale_config, *inner) if config is not None)


def _first(configs: Any, name: str) -> Any:
    """The first value that is set; None: none is."""
    return next((value for each in configs if (value := getattr(each, name)) not in (None, ())), None)


def _tunnel(node_class: GPUNodeClass, provider: str, request: GPURequest | None) -> TunnelSettings:
    config = talos_of(node_class, provider).wire_guard_config or WireGuardConfig()
    talos = request.spec.talos_config if request is not None else None
    said = talos.wire_guard_config if talos is not None else None
    private = said.private_key if said is not None and said.private_key else config.private_key
    own: dict[str, Any] = {
        name: value
        for name in ("public_key", "server_endpoint", "allowed_ips", "address")
        if said is not None and (value := getattr(said, name))
    }
    return TunnelSettings(
        private_key=Secret(private) if private else _ref(config.private_key_secret_ref),
        server_key=own.get("public_key") or config.public_key or _ref(config.public_key_secret_ref),
        server_endpoint=own.get("server_endpoint") or config.server_endpoint or _ref(config.server_endpoint_secret_ref),
        allowed_ips=own.get("allowed_ips") or config.allowed_ips or _ref(config.allowed_ips_secret_ref) or (),
        address=own.get("address") or config.address or _ref(config.address_secret_ref),
        address_pool=config.address_pool or "",
    )


def _ref(ref: SecretKeyRef | None) -> Ref | None:
    return Ref(ref.name, ref.key) if ref is not None else None


def backend_of(node_class: GPUNodeClass, default: str) -> str:
    """The mesh of a class: chosen, else the one that is configured, else the operator's; empty: not set."""
    spec = node_class.spec
    if spec.networking is not None and spec.networking.backend:
        return spec.networking.backend
    configs = tailscale_configs(node_class)
    if configs:
        return "headscale" if any(config.login_server for config in configs) else "tailscale"
    talos = (spec.talos_config, *(provider.talos_config for provider in spec.providers))
    if any(config is not None and config.wire_guard_config is not None for config in talos):
        return "wireguard"
    return default


def drift(
    stand: MeshStatus, node_class: GPUNodeClass | None, provider: str, request: GPURequest | None, default: str
) -> str:
    """Empty: the right mesh, or unknown."""
    if not stand.backend or node_class is None:
        return ""
    now = mesh_of(node_class, provider, request, default).backend.value
    if now == stand.backend:
        return ""
    return f"Machine joined by {stand.backend}, but its class uses {now} now; the machine stays until it is replaced"
