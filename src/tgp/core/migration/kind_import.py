"""Classes, pools and requests of tgp-operator. They apply as they are; here they get tgp's own spelling."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tgp.api.common import DEFAULT_KEYS, canonical_provider
from tgp.api.nodepool import CONSOLIDATION_ALIASES
from tgp.api.pattern import matches
from tgp.api.resource import GPU_NODE_CLASS
from tgp.api.talos import EARLY_DROPPED, KEY_PATTERN
from tgp.core.joining.talos.releases import USUAL
from tgp.core.joining.talos.render import inspect
from tgp.core.migration.field_notes import FieldOutcome, ManifestDraft
from tgp.core.model.machine_config import Severity
from tgp.core.model.mesh import Backend
from tgp.core.model.talos import NEWEST_MINOR, OLDEST_MINOR, read_version

RENAMED, CHANGED = FieldOutcome.RENAMED, FieldOutcome.CHANGED
UNNEEDED, NOT_CONVERTED = FieldOutcome.UNNEEDED, FieldOutcome.NOT_CONVERTED
WIREGUARD, TAILSCALE = "wireGuardConfig", "tailscaleConfig"
OF_A_REQUEST = ("hostname", "tags")  # of tailscaleConfig; the rest is the class's
REQUEST_NAMES = {"maxPrice": "maxHourlyPrice", "spotInstance": "spot", "ttl": "maxLifetime"}
PRIVATE_KEY = "privateKey"
MESH_GUIDE = "docs/migrating-from-wireguard.md"


@dataclass(frozen=True, slots=True)
class ImportSettings:
    namespace: str  # of objects that name none
    operator_namespace: str
    to_tailscale: bool = False  # replace WireGuard tunnels
    containers: Mapping[str, str] | None = None  # providers that only rent containers, with their titles


def convert_class(draft: ManifestDraft, settings: ImportSettings) -> None:
    providers = draft.find("spec.providers")
    for number in range(len(providers) if isinstance(providers, list) else 0):
        path = f"spec.providers[{number}]"
        _provider_name(draft, f"{path}.name", settings)
        _secret_namespace(draft, f"{path}.credentialsRef", settings)
        _talos(draft, f"{path}.talosConfig", settings)
    if draft.find("spec.providers[0].priority") is not None and draft.find("spec.selection") is None:
        draft.note(
            "spec.providers",
            CHANGED,
            "priority decides between offers of the same price. For a strict order of providers set spec.selection: "
            "Priority.",
        )
    _talos(draft, "spec.talosConfig", settings)
    inner = draft.find(f"spec.talosConfig.{TAILSCALE}")
    if inner is not None and draft.find(f"spec.{TAILSCALE}") is None:
        draft.put(f"spec.{TAILSCALE}", draft.take(f"spec.talosConfig.{TAILSCALE}"))
        draft.note(f"spec.talosConfig.{TAILSCALE}", RENAMED, f"is now spec.{TAILSCALE}.")
        if not draft.find("spec.talosConfig"):
            draft.take("spec.talosConfig")
    _tailscale(draft, f"spec.{TAILSCALE}", settings)
    if settings.to_tailscale and draft.find("spec.networking.backend") == "wireguard":
        draft.put("spec.networking.backend", "tailscale")
        draft.note("spec.networking.backend", CHANGED, "is now tailscale.")
    if draft.find("spec.limits") is not None:
        draft.note("spec.limits", CHANGED, "is a hard limit: machines that may exist count as well.")
    if draft.find("spec.instanceRequirements.spotAllowed") is True:
        draft.note(
            "spec.instanceRequirements.spotAllowed",
            CHANGED,
            "spot machines are bought where they are cheaper. The provider may interrupt them at any time.",
        )


def convert_pool(draft: ManifestDraft) -> None:
    policy = draft.find("spec.disruption.consolidationPolicy")
    if policy in CONSOLIDATION_ALIASES:
        draft.put("spec.disruption.consolidationPolicy", CONSOLIDATION_ALIASES[policy])
        draft.note("spec.disruption.consolidationPolicy", RENAMED, f"{policy} is now {CONSOLIDATION_ALIASES[policy]}.")
    if draft.find("spec.disruption") is None:
        draft.note(
            "spec", CHANGED, "machines without pods are terminated after 10m (spec.disruption.consolidateAfter)."
        )
    if draft.find("spec.template.spec.ephemeralTaint") is None:
        if draft.find("spec.template.spec.taints"):
            draft.put("spec.template.spec.ephemeralTaint", False)
            draft.note(
                "spec.template.spec.taints",
                CHANGED,
                "ephemeralTaint: false was added: without it pods must also tolerate tgp.io/ephemeral:NoSchedule.",
            )
        else:
            draft.note(
                "spec.template",
                CHANGED,
                "machines carry the taint tgp.io/ephemeral:NoSchedule. Add the toleration to your pods, or set "
                "spec.template.spec.ephemeralTaint: false.",
            )


def convert_request(draft: ManifestDraft, settings: ImportSettings) -> ManifestDraft | None:
    """The class that the request needs, if it has mesh settings: those belong to a class."""
    for old, new in REQUEST_NAMES.items():
        value = draft.find(f"spec.{old}")
        if value is not None and draft.find(f"spec.{new}") is None:
            draft.put(f"spec.{new}", draft.take(f"spec.{old}"))
            draft.note(f"spec.{old}", RENAMED, f"is now spec.{new}.")
    price = draft.find("spec.maxHourlyPrice")
    if isinstance(price, int | float) and not isinstance(price, bool):
        text = f"{price:.6f}".rstrip("0").rstrip(".")
        draft.put("spec.maxHourlyPrice", text)
        draft.note("spec.maxHourlyPrice", RENAMED, f'is a text in quotes: "{text}".')
    if draft.take("spec.maxSpotPrice") is not None:
        draft.note(
            "spec.maxSpotPrice",
            NOT_CONVERTED,
            "a request has one limit, spec.maxHourlyPrice. Set it to the spot limit, or create a second request "
            "without spot.",
        )
    regions = draft.take("spec.regionPreference")
    if regions is not None:
        draft.put("spec.regions", regions)
        draft.note("spec.regionPreference", CHANGED, "is now spec.regions: the cheapest of them wins, not the first.")
    _provider_name(draft, "spec.provider", settings)
    if draft.find("spec.maxLifetime") is None:
        draft.note("spec", CHANGED, "the machine is terminated after 24h (maxLifetime), or after 30m without use.")
    _talos(draft, "spec.talosConfig", settings)
    return _class_of(draft)


def _class_of(draft: ManifestDraft) -> ManifestDraft | None:
    talos = draft.find("spec.talosConfig")
    mesh = [name for name in (WIREGUARD, TAILSCALE) if isinstance(talos, dict) and isinstance(talos.get(name), dict)]
    if not isinstance(talos, dict) or not mesh or draft.find("spec.nodeClassRef") is not None:
        return None
    provider = draft.find("spec.provider")
    spec: dict[str, Any] = {
        "providers": [{"name": name} for name in ([provider] if provider else DEFAULT_KEYS)],
    }
    if draft.find("spec.spot") is True:
        spec["instanceRequirements"] = {"spotAllowed": True}
    if "image" in talos:
        spec["talosConfig"] = {"image": talos.pop("image")}
    if WIREGUARD in mesh:
        spec.setdefault("talosConfig", {})[WIREGUARD] = talos.pop(WIREGUARD)
    kept: dict[str, Any] = {}
    if TAILSCALE in mesh:
        config = talos.pop(TAILSCALE)
        kept = {name: config[name] for name in OF_A_REQUEST if name in config}
        spec[TAILSCALE] = {name: value for name, value in config.items() if name != "hostname"}
    if kept:
        talos[TAILSCALE] = kept
    name = str(draft.find("metadata.name"))
    manifest = {
        "apiVersion": GPU_NODE_CLASS.api_version,
        "kind": GPU_NODE_CLASS.kind,
        "metadata": {"name": name},
        "spec": spec,
    }
    draft.put("spec.nodeClassRef", {"name": name})
    if not talos:
        draft.take("spec.talosConfig")
    moved = " and ".join(mesh)
    draft.note(
        "spec.talosConfig",
        CHANGED,
        f"{moved} belongs to a class: GPUNodeClass {name} was made, and the request names it. Requests with the same "
        "settings can share one class.",
    )
    made = ManifestDraft(draft.source, manifest, came_from=draft.subject)
    if not provider:
        made.note(
            "spec",
            CHANGED,
            f"the request named no provider: its class has {', '.join(DEFAULT_KEYS)}. Remove those without an API key.",
        )
    return made


# -- parts that several kinds have -------------------------------------------------------------------------------------


def _talos(draft: ManifestDraft, path: str, settings: ImportSettings) -> None:
    if not isinstance(draft.find(path), dict):
        return
    _secret_namespace(draft, f"{path}.machineConfigSecretRef", settings)
    _image(draft, f"{path}.image")
    _tailscale(draft, f"{path}.{TAILSCALE}", settings)
    if isinstance(draft.find(f"{path}.{WIREGUARD}"), dict):
        _wireguard(draft, f"{path}.{WIREGUARD}", settings)
    template = draft.find(f"{path}.machineConfigTemplate")
    if isinstance(template, str):
        _template(draft, path, template)


def _image(draft: ManifestDraft, path: str) -> None:
    image = draft.find(path)
    version = read_version(image) if isinstance(image, str) else None
    if version is not None and not version.supported:
        draft.take(path)
        draft.note(
            path,
            NOT_CONVERTED,
            f"Talos {version} is not supported: v1.{OLDEST_MINOR} to v1.{NEWEST_MINOR} are. It was left out: machines "
            "get the version of the cluster's own nodes.",
        )


def _template(draft: ManifestDraft, path: str, template: str) -> None:
    version = read_version(str(draft.find(f"{path}.image") or "")) or read_version(USUAL)
    assert version is not None, "the usual release is one"
    tunnel = draft.find(f"{path}.{WIREGUARD}") is not None
    conversions, findings = inspect(template, version, backend=Backend.WIREGUARD if tunnel else Backend.TAILSCALE)
    at = f"{path}.machineConfigTemplate"
    if conversions:
        many = "1 part" if len(conversions) == 1 else f"{len(conversions)} parts"
        draft.note(
            at,
            CHANGED,
            f"{many} of it cannot boot on Talos, or stopped nodes from joining: the operator replaces them for each "
            "machine. tgp talos check FILE shows every line.",
        )
    for finding in findings:
        if finding.severity is Severity.ERROR:
            draft.note(at, NOT_CONVERTED, f"template {finding}. Correct it: tgp talos check shows every line.")


def _wireguard(draft: ManifestDraft, path: str, settings: ImportSettings) -> None:
    for name in draft.find(path):
        _secret_namespace(draft, f"{path}.{name}", settings)
    if settings.to_tailscale:
        draft.take(path)
        inside, _, _ = path.rpartition(".")
        if draft.find(f"{inside}.{TAILSCALE}") is None:
            draft.put(f"{inside}.{TAILSCALE}", {"tags": ["tag:tgp-gpu"]})
        draft.note(
            path,
            CHANGED,
            "was replaced by tailscaleConfig with tag:tgp-gpu. It needs an OAuth client in the operator's Secret and "
            f"an endpoint in the tailnet: {MESH_GUIDE}.",
        )
        return
    draft.note(
        path,
        CHANGED,
        f"still works, and is dropped in {EARLY_DROPPED}. The server must take its peers from the operator's Secret "
        f"({MESH_GUIDE}); --mesh tailscale replaces it.",
    )
    _private_key(draft, path, settings)
    if draft.find(f"{path}.addressPool") is None:
        draft.note(path, CHANGED, "serves one machine at a time. For more set addressPool to a network.")


def _private_key(draft: ManifestDraft, path: str, settings: ImportSettings) -> None:
    """Into a Secret: every user who may read a class could read a key in it."""
    key = draft.find(f"{path}.privateKey")
    if not isinstance(key, str) or not matches(key, KEY_PATTERN) or draft.find(f"{path}.privateKeySecretRef"):
        return  # what is wrong with it is said with everything else that is not accepted
    name = PRIVATE_KEY if not draft.secret else f"{PRIVATE_KEY}-{len(draft.secret) + 1}"
    draft.secret[name] = draft.take(f"{path}.privateKey")
    draft.put(f"{path}.privateKeySecretRef", {"name": draft.secret_name, "key": name})
    draft.note(
        f"{path}.privateKey",
        CHANGED,
        f"is in Secret {settings.operator_namespace}/{draft.secret_name}, written before the object: in a class "
        "every user who may read it could read the key.",
    )


def _tailscale(draft: ManifestDraft, path: str, settings: ImportSettings) -> None:
    config = draft.find(path)
    if not isinstance(config, dict):
        return
    for name in ("oauthCredentialsSecretRef", "authKeySecretRef"):
        _secret_namespace(draft, f"{path}.{name}", settings)
    if draft.take(f"{path}.operatorConfig") is not None:
        draft.note(f"{path}.operatorConfig", UNNEEDED, "tgp asks the tailnet itself and makes no Connector objects.")
    if "authKeySecretRef" in config:
        draft.note(
            f"{path}.authKeySecretRef",
            CHANGED,
            "works, with a warning: every machine that ever held the key can join again. An OAuth client makes one key "
            "per machine.",
        )


def _provider_name(draft: ManifestDraft, path: str, settings: ImportSettings) -> None:
    name = draft.find(path)
    if name == "":
        draft.take(path)
        return
    if not isinstance(name, str):
        return
    canonical = canonical_provider(name)
    if canonical != name:
        draft.put(path, canonical)
        draft.note(path, RENAMED, f"{name} is now {canonical}.")
    title = (settings.containers or {}).get(canonical)
    if title:
        draft.note(
            path,
            CHANGED,
            f"{title} rents containers, which cannot boot Talos: nothing is bought there. Add a provider that boots "
            "Talos: tgp offers --join talos.",
        )


def _secret_namespace(draft: ManifestDraft, path: str, settings: ImportSettings) -> None:
    ref = draft.find(path)
    namespace = ref.pop("namespace", None) if isinstance(ref, dict) else None
    if not namespace or namespace == settings.operator_namespace:
        return
    draft.note(
        f"{path}.namespace",
        NOT_CONVERTED,
        f"Secrets are only read in namespace {settings.operator_namespace}: copy Secret {ref.get('name')} from "
        f"{namespace} there.",
    )
