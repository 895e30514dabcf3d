"""The templates of a class: one for all its providers, or several, each with the Talos it is meant for."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tgp.api.common import PROVIDERS, canonical_provider
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.talos import TalosConfig
from tgp.core.model.mesh import Backend
from tgp.core.model.talos import TalosVersion, read_version
from tgp.core.rules.nodeclass import backend_of
from tgp.core.rules.talos.settings import talos_of

SWITCHED = "webhook"  # machines that are switched on, and boot what is on their disks


@dataclass(frozen=True, slots=True)
class Unread:
    """A template that is kept where nobody can look from here."""

    why: str


@dataclass(frozen=True, slots=True)
class Sheet:
    """One template, and what it is for."""

    title: str
    version: TalosVersion
    backend: Backend
    template: str | None = field(default=None, repr=False)  # None: there is none, one is generated
    kubelet_image: str = ""
    source: str = ""  # the file it stands in; empty: it was read from the cluster
    before: int | None = 0  # lines of that file before it; None: its lines are not the file's
    unread: str = ""  # why nobody can look at it; empty: it is here
    providers: tuple[str, ...] = ()  # whose machines are to boot with it; empty: nothing says so


def sheets_of(
    node_class: GPUNodeClass,
    *,
    default_version: TalosVersion,
    version: TalosVersion | None = None,
    backend: Backend | None = None,
    default_backend: str = Backend.TAILSCALE,
    templates: Mapping[str, str | Unread | None] | None = None,
) -> tuple[Sheet, ...]:
    """Those that differ, each once. `version`, `backend`: whatever the class says. `templates`: by provider, where
    somebody has looked into their Secrets.
    """
    by_config: dict[tuple[str, str | None, TalosVersion, str], list[str]] = {}
    for provider, config in configs_of(node_class).items():
        written = templates[provider] if templates is not None else template_of(config)
        unread, template = (written.why, None) if isinstance(written, Unread) else ("", written)
        said = version or (read_version(config.image) if config.image else None) or default_version
        if not said.supported:
            unread = f"{config.image} is not a Talos of v1.10 to v1.14"
        by_config.setdefault((unread, template, said, config.kubelet_image or ""), []).append(provider)
    mesh = backend or Backend(backend_of(node_class, default_backend) or Backend.NONE)
    name = node_class.metadata.name or "a class without a name"
    return tuple(
        Sheet(
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
    """What the class says about Talos, by provider whose machines are booted."""
    names = (canonical_provider(each.name) for each in node_class.spec.providers if each.enabled)
    return {name: talos_of(node_class, name) for name in names if name in PROVIDERS and name != SWITCHED}


def template_of(config: TalosConfig) -> str | Unread | None:
    """As far as it stands in the class itself."""
    ref = config.machine_config_secret_ref
    if ref is not None:
        return Unread(f"the template is in Secret {ref.name}, key {ref.key}: tgp talos check --class looks there")
    return config.machine_config_template
