"""The templates of a class: one for all its providers, or several, each with its Talos version."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tgp.api.common import OWNED_PROVIDER, PROVIDERS, canonical_provider
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.talos import TalosConfig
from tgp.core.joining.mesh.selection import backend_of
from tgp.core.joining.talos.settings import talos_of
from tgp.core.model.mesh import Backend
from tgp.core.model.talos import TalosVersion, read_version


@dataclass(frozen=True, slots=True)
class UnreadTemplate:
    """A template in a Secret that cannot be read from here."""

    why: str


@dataclass(frozen=True, slots=True)
class ClassTemplate:
    """One template, and which machines use it."""

    title: str
    version: TalosVersion
    backend: Backend
    template: str | None = field(default=None, repr=False)  # None: there is none, one is generated
    kubelet_image: str = ""
    source: str = ""  # its file; empty: it was read from the cluster
    before: int | None = 0  # lines of that file before it; None: its lines do not map to the file
    unread: str = ""  # why it cannot be read; empty: it was read
    providers: tuple[str, ...] = ()  # whose machines boot with it; empty: unknown


def templates_of(
    node_class: GPUNodeClass,
    *,
    default_version: TalosVersion,
    version: TalosVersion | None = None,
    backend: Backend | None = None,
    default_backend: str = Backend.TAILSCALE,
    templates: Mapping[str, str | UnreadTemplate | None] | None = None,
) -> tuple[ClassTemplate, ...]:
    """Those that differ, each once. `version`, `backend`: whatever the class says. `templates`: by provider, where
    their Secrets were read.
    """
    by_config: dict[tuple[str, str | None, TalosVersion, str], list[str]] = {}
    for provider, config in configs_of(node_class).items():
        written = templates[provider] if templates is not None else template_of(config)
        unread, template = (written.why, None) if isinstance(written, UnreadTemplate) else ("", written)
        said = version or (read_version(config.image) if config.image else None) or default_version
        if not said.supported:
            unread = f"{config.image} is not a supported Talos version (v1.10 to v1.14)"
        by_config.setdefault((unread, template, said, config.kubelet_image or ""), []).append(provider)
    mesh = backend or Backend(backend_of(node_class, default_backend) or Backend.NONE)
    name = node_class.metadata.name or "a class without a name"
    return tuple(
        ClassTemplate(
            name if len(by_config) == 1 else f"{name} at {', '.join(providers)}",
            said,
            mesh,
            template,
            kubelet,
            unread=unread,
            providers=tuple(providers),
        )
        for (unread, template, said, kubelet), providers in by_config.items()
    )


def configs_of(node_class: GPUNodeClass) -> Mapping[str, TalosConfig]:
    """The class's Talos settings, by provider whose machines are booted."""
    names = (canonical_provider(each.name) for each in node_class.spec.providers if each.enabled)
    return {name: talos_of(node_class, name) for name in names if name in PROVIDERS and name != OWNED_PROVIDER}


def template_of(config: TalosConfig) -> str | UnreadTemplate | None:
    """As far as it is in the class itself."""
    ref = config.machine_config_secret_ref
    if ref is not None:
        return UnreadTemplate(
            f"the template is in Secret {ref.name}, key {ref.key}: run tgp talos check --class to check it"
        )
    return config.machine_config_template
