"""GPUNodeClass: the administrator's template. Providers, credentials, Talos and mesh settings, hard limits."""

from datetime import datetime
from typing import Annotated, Any

import msgspec

from tgp.api import cel
from tgp.api.cel import FORBIDDEN, one_of
from tgp.api.common import (
    ALIASES,
    DEFAULT_KEYS,
    OWNED_PROVIDER,
    PROVIDER_NAMES,
    Conditions,
    LabelSelector,
    ObjectMeta,
    Quantities,
    SecretKeyRef,
    spellings,
)
from tgp.api.field import ApiStruct, Field, Rule
from tgp.api.mesh import AGREEMENT_RULES, NETWORKING_RULES
from tgp.api.owned_machine import PowerMachine
from tgp.api.pattern import matches
from tgp.api.talos import TailscaleConfig, TalosConfig

PROVIDERS_MAX = 16
BACKENDS = ("tailscale", "headscale", "wireguard", "kubespan", "none")
_KEYS = tuple(DEFAULT_KEYS.values())
TRUST_TIERS = ("Any", "Verified", "Datacenter")

# Which provider a setting belongs to. Every provider has `endpoint`.
SETTING_OF = {
    "sshKeyName": ("lambdalabs",),
    "templateId": ("paperspace",),
    "prices": ("paperspace", "gcp"),
    "project": ("gcp",),
    "network": ("gcp",),
    "image": ("gcp",),
    "snapshotId": ("vultr",),
    "minReliability": ("vast",),
    "verifiedOnly": ("vast",),
    "bidMargin": ("vast",),
    "cloud": ("runpod",),
    "machines": (OWNED_PROVIDER,),
    "electricityPricePerKWh": (OWNED_PROVIDER,),
}

# Settings without which a provider launches nothing, and why. A class without one is accepted: its prices can be read.
REQUIRED_SETTINGS = {
    "lambdalabs": (
        "ssh_key_name",
        "sshKeyName is not set, and Lambda starts no machine without an SSH key of the account",
    ),
    "gcp": ("image", "image is not set: name the Talos image that was uploaded to the project"),
}

_PROJECT = cel.reads(r"^[a-z][-a-z0-9]{4,28}[a-z0-9]$", "must be a project id such as my-project-123")
_TEXT = cel.reads(r"^[!-~]+$", "must be printable characters without spaces")


def _setting_belongs(setting: str) -> Rule:
    owners = SETTING_OF[setting]
    names = tuple(name for owner in owners for name in spellings(owner))
    whose = " or ".join(owners)
    return Rule(
        f"!has(self.settings) || !has(self.settings.{setting}) || self.name in {one_of(*names)}",
        f"{setting} is a setting of {whose} only",
        lambda self, _: setting not in self.get("settings", {}) or self["name"] in names,
        field=f".settings.{setting}",
        reason=FORBIDDEN,
    )


class ProviderSettings(ApiStruct, frozen=True, kw_only=True):
    """Settings of one provider. Each belongs to the provider it names; with another it is refused."""

    endpoint: Annotated[
        str | None,
        Field(
            doc="Any provider: another address of its API, for tests and private gateways.",
            min_length=1,
            max_length=512,
            rules=(cel.URL,),
        ),
    ] = None
    ssh_key_name: Annotated[
        str | None,
        Field(
            doc="lambdalabs: the name of an SSH key in the account. Lambda starts no machine without one.",
            min_length=1,
            max_length=128,
        ),
    ] = None
    template_id: Annotated[
        str | None,
        Field(doc="paperspace: the template a machine starts from.", min_length=1, max_length=64, rules=(_TEXT,)),
    ] = None
    prices: Annotated[
        dict[str, Annotated[str, Field(max_length=16, rules=(cel.PRICE,))]],
        Field(
            doc=(
                "paperspace, gcp: dollars per hour for each machine type, where the provider's API returns no price, "
                'such as {"A100-80G": "3.18"}.'
            ),
            max_properties=64,
        ),
    ] = msgspec.field(default_factory=dict)
    project: Annotated[
        str | None,
        Field(
            doc="gcp: the project machines are created in. Default: the one in the service account's key.",
            max_length=30,
            rules=(_PROJECT,),
        ),
    ] = None
    network: Annotated[
        str | None, Field(doc="gcp: the VPC network. Default: default.", min_length=1, max_length=256, rules=(_TEXT,))
    ] = None
    image: Annotated[
        str | None,
        Field(
            doc="gcp: the Talos image to boot, as uploaded to the project.",
            min_length=1,
            max_length=256,
            rules=(_TEXT,),
        ),
    ] = None
    snapshot_id: Annotated[
        str | None,
        Field(
            doc=(
                "vultr: the snapshot of a Talos image to boot. Default: the operator creates one from the Image "
                "Factory's image, once, and deletes it when no class needs it."
            ),
            min_length=1,
            max_length=64,
            rules=(_TEXT,),
        ),
    ] = None
    min_reliability: Annotated[
        float | None,
        Field(
            doc="vast: accept only hosts at least this reliable, 0 to 1. Default: the value that minTrust implies.",
            minimum=0,
            maximum=1,
        ),
    ] = None
    verified_only: Annotated[bool | None, Field(doc="vast: accept only hosts Vast has verified. Default true.")] = None
    bid_margin: Annotated[
        float | None,
        Field(
            doc=(
                "vast: a spot bid is the minimum bid times this, capped by maxHourlyPrice and by the on-demand price. "
                "Default 1.25; 1 to 10."
            ),
            minimum=1,
            maximum=10,
        ),
    ] = None
    cloud: Annotated[
        str | None,
        Field(doc="runpod: SECURE (default), COMMUNITY, or ALL for both.", enum=("SECURE", "COMMUNITY", "ALL")),
    ] = None
    machines: Annotated[
        tuple[PowerMachine, ...],
        Field(
            doc="webhook: the machines you own, switched on and off by HTTP calls.",
            max_items=64,
            list_type="map",
            list_key="name",
        ),
    ] = ()
    electricity_price_per_kwh: Annotated[
        str | None,
        Field(
            doc="webhook: dollars per kilowatt-hour. With a machine's watts it gives the machine's price per hour.",
            max_length=16,
            rules=(cel.PRICE,),
        ),
    ] = None


class ProviderConfig(ApiStruct, frozen=True, kw_only=True):
    """One provider of a class."""

    object_rules = tuple(_setting_belongs(setting) for setting in SETTING_OF)
    name: Annotated[
        str,
        Field(
            doc=(
                "vast, runpod, lambdalabs, paperspace, vultr, gcp, webhook (machines you own) or simulated (for "
                "trying out). "
                f"Also accepted: {', '.join(ALIASES)}. Each provider may appear once."
            ),
            enum=PROVIDER_NAMES,
        ),
    ]
    enabled: Annotated[
        bool,
        Field(
            doc=(
                "Default true. False: nothing is launched at this provider; machines there are still terminated when "
                "due."
            )
        ),
    ] = True
    priority: Annotated[
        int,
        Field(
            doc=(
                "Lower is preferred; default 100. With selection Price it breaks ties, with Priority it is strict "
                "order."
            ),
            minimum=0,
            maximum=1_000_000,
        ),
    ] = 100
    credentials_ref: Annotated[
        SecretKeyRef | None,
        Field(
            doc=(
                "The API key. Default: the Secret tgp-operator-secret with the key "
                f"{', '.join(_KEYS[:-1])} or {_KEYS[-1]}. webhook and simulated need none."
            )
        ),
    ] = None
    regions: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=63, rules=(_TEXT,))], ...],
        Field(
            doc=(
                "Launch only in these regions: tgp's names (us-west, eu-central) or the provider's own. Default: any "
                "region."
            ),
            max_items=64,
            list_type="set",
        ),
    ] = ()
    talos_config: Annotated[
        TalosConfig | None, Field(doc="Overrides the class's talosConfig, field by field, for this provider.")
    ] = None
    settings: Annotated[ProviderSettings | None, Field(doc="Settings of this provider only.")] = None


def _someone_is_enabled(self: list[dict[str, Any]], _old: object) -> bool:
    return any(provider.get("enabled", True) for provider in self)


def _named_once(provider: str) -> Rule:
    names = spellings(provider)
    return Rule(
        f"self.filter(p, p.name in {one_of(*names)}).size() <= 1",
        f"{', '.join(names)} are one provider: list it once",
        lambda self, _: sum(entry["name"] in names for entry in self) <= 1,
    )


class Networking(ApiStruct, frozen=True, kw_only=True):
    """Which private network the machines join by."""

    backend: Annotated[
        str | None,
        Field(
            doc=(
                "tailscale, headscale, wireguard, kubespan or none. Default: the one that is configured in this class, "
                "else the operator's own networking.backend. Refused: headscale without tailscaleConfig.loginServer, "
                "wireguard without talosConfig.wireGuardConfig, and no backend where several meshes are configured. "
                "A change replaces a pool's nodes one by one within its disruption budget."
            ),
            enum=BACKENDS,
        ),
    ] = None


class InstanceRequirements(ApiStruct, frozen=True, kw_only=True):
    """What machines of this class may be. Pools and requests can only narrow it."""

    gpu_types: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=63, rules=(cel.GPU_NAME,))], ...],
        Field(
            doc=(
                "GPU models, such as RTX4090 or H100-SXM; a family such as A100 means any of its members. Default: "
                "any. "
                "An unknown GPU model keeps the class from becoming Ready; the message lists the nearest names."
            ),
            max_items=64,
            list_type="set",
        ),
    ] = ()
    regions: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=63, rules=(_TEXT,))], ...],
        Field(doc="Regions machines may run in. Default: any.", max_items=64, list_type="set"),
    ] = ()
    spot_allowed: Annotated[
        bool,
        Field(
            doc=(
                "Default false. True: spot machines, which the provider may interrupt at any time, are launched too, "
                "where they are cheaper."
            )
        ),
    ] = False
    min_vcpu: Annotated[int | None, Field(doc="Minimum number of virtual CPUs.", minimum=1, maximum=4096)] = None
    min_memory_gib: Annotated[int | None, Field(doc="Minimum memory in GiB.", minimum=1, maximum=65536)] = None
    min_gpu_memory_gib: Annotated[
        int | None, Field(doc="Minimum memory of one GPU in GiB.", minimum=1, maximum=4096)
    ] = None
    min_trust: Annotated[
        str,
        Field(
            doc=(
                "Required trust in the machine's owner: Datacenter, Verified (default: the provider has checked "
                "the owner), "
                "or Any. The owner of a machine can read what runs on it."
            ),
            enum=TRUST_TIERS,
        ),
    ] = "Verified"


class ClassLimits(ApiStruct, frozen=True, kw_only=True):
    """Hard limits: machines that run, are reserved or may exist never exceed them together."""

    max_nodes: Annotated[
        int | None, Field(doc="Maximum number of machines at one time.", minimum=1, maximum=100_000)
    ] = None
    max_hourly_cost: Annotated[
        str | None,
        Field(
            doc='Maximum dollars per hour for all machines together, such as "50.0".',
            max_length=16,
            rules=(cel.PRICE, cel.PRICE_ABOVE_ZERO),
        ),
    ] = None
    resources: Annotated[
        Quantities,
        Field(
            doc=(
                "Maximum resources of all machines together: nvidia.com/gpu, amd.com/gpu, cpu, memory, nodes. Example: "
                '{"nvidia.com/gpu": 16, "memory": "2Ti"}.'
            ),
            max_properties=32,
            rules=(cel.QUALIFIED_KEYS,),
        ),
    ] = msgspec.field(default_factory=dict)


def _timeout(doc: str) -> Field:
    return Field(doc=doc, max_length=32, rules=(cel.DURATION, cel.SPAN_ABOVE_ZERO))


class Timeouts(ApiStruct, frozen=True, kw_only=True):
    """How long each step of a start may take. Extended while the provider reports progress, to at most twice."""

    launch: Annotated[
        str | None,
        _timeout(
            "From the launch order until the provider reports the machine as running. Default: by provider and size."
        ),
    ] = None
    boot: Annotated[str | None, _timeout("From running until Talos is first seen. Default: by provider and size.")] = (
        None
    )
    join: Annotated[str | None, _timeout("From boot to a Node in the cluster. Default: by provider and size.")] = None
    initialize: Annotated[
        str | None, _timeout("From Node to Ready with all its GPUs allocatable. Default: by provider and size.")
    ] = None


_TAG_KEY = r"^[A-Za-z0-9]([-A-Za-z0-9_.:/]{0,61}[A-Za-z0-9])?$"
RESERVED_TAG = r"^[tT][gG][pP]([-_.:/]|$)"
_TAG_KEYS = (
    Rule(
        f"self.all(k, k.matches('{_TAG_KEY}'))",
        "keys must be 1 to 63 letters, digits, '-', '_', '.', ':' and '/'",
        lambda self, _: all(matches(key, _TAG_KEY) for key in self),
    ),
    Rule(
        f"self.all(k, !k.matches('{RESERVED_TAG}'))",
        "keys that begin with tgp are reserved: they mark which cluster a machine belongs to",
        lambda self, _: not any(matches(key, RESERVED_TAG) for key in self),
        reason=FORBIDDEN,
    ),
)


class GPUNodeClassSpec(ApiStruct, frozen=True, kw_only=True):
    """Where machines may be launched, how they join the cluster, and what they may cost at most."""

    object_rules = (
        *NETWORKING_RULES,
        *AGREEMENT_RULES,
    )
    providers: Annotated[
        tuple[ProviderConfig, ...],
        Field(
            doc="Where to launch machines: 1 to 16 providers, each once, at least one of them enabled.",
            min_items=1,
            max_items=PROVIDERS_MAX,
            list_type="map",
            list_key="name",
            rules=(
                Rule(
                    "self.exists(p, !has(p.enabled) || p.enabled)",
                    "at least one provider must be enabled; to stop launching altogether set spec.suspend",
                    _someone_is_enabled,
                ),
                _named_once("vast"),
                _named_once("lambdalabs"),
            ),
        ),
    ]
    selection: Annotated[
        str,
        Field(
            doc=(
                "How one offer is chosen among those that fit: Price (default, the cheapest) or Priority (the "
                "providers' strict order)."
            ),
            enum=("Price", "Priority"),
        ),
    ] = "Price"
    boot_policy: Annotated[
        str,
        Field(
            doc=(
                "Which ways of starting Talos are allowed: Native (the provider boots a Talos image), Takeover "
                "(default: also "
                "machines whose Linux is overwritten with Talos), Any (also containers, for pods, once a bridge can "
                "run them there; a container is never launched to boot Talos)."
            ),
            enum=("Native", "Takeover", "Any"),
        ),
    ] = "Takeover"
    suspend: Annotated[
        bool,
        Field(doc="Default false. True: nothing is launched for this class; machines are still terminated when due."),
    ] = False
    talos_config: Annotated[TalosConfig | None, Field(doc="The operating system and how it joins.")] = None
    tailscale_config: Annotated[TailscaleConfig | None, Field(doc="How machines join the tailnet.")] = None
    networking: Annotated[Networking | None, Field(doc="Which private network the machines join by.")] = None
    instance_requirements: Annotated[InstanceRequirements, Field(doc="What machines of this class may be.")] = (
        InstanceRequirements()
    )
    limits: Annotated[ClassLimits | None, Field(doc="Hard limits of the whole class.")] = None
    timeouts: Annotated[Timeouts | None, Field(doc="How long a start may take.")] = None
    tags: Annotated[
        dict[str, Annotated[str, Field(max_length=255)]],
        Field(
            doc=(
                "Copied to the provider's tags or labels on each machine. Refused: keys that begin with tgp; "
                "the keys that mark the machine as this cluster's always win."
            ),
            max_properties=32,
            rules=_TAG_KEYS,
        ),
    ] = msgspec.field(default_factory=dict)
    allowed_namespaces: Annotated[
        LabelSelector | None,
        Field(
            doc=(
                "Namespaces whose pools, requests and pods may use this class, by their labels. Absent: every "
                "namespace, "
                "or none where the operator runs with requireAllowedNamespaces. The limits hold for all together."
            )
        ),
    ] = None


class ProviderStatus(ApiStruct, frozen=True, kw_only=True):
    """The last result from one provider."""

    credentials_valid: Annotated[bool, Field(doc="Whether the provider accepted the API key.")] = False
    last_credential_check: Annotated[
        datetime | None, Field(doc="When the API key was last checked.", format="date-time")
    ] = None
    error: Annotated[str | None, Field(doc="The provider's error message, if it refused.", max_length=1024)] = None
    offers: Annotated[int | None, Field(doc="Offers that match the class.", minimum=0)] = None
    last_pricing_update: Annotated[datetime | None, Field(doc="When prices were last read.", format="date-time")] = None
    boot_mode: Annotated[
        str | None, Field(doc="How machines there start: native, takeover, container or power.", max_length=32)
    ] = None
    boot_seen_at: Annotated[
        datetime | None, Field(doc="When a machine of this provider was first seen to join.", format="date-time")
    ] = None
    boot_time: Annotated[
        str | None,
        Field(doc="How long the last machine took from its order until it was Ready, such as 2m37s.", max_length=32),
    ] = None


class GPUAvailability(ApiStruct, frozen=True, kw_only=True):
    """The cheapest offer of one GPU model at one provider."""

    gpu_type: Annotated[str, Field(doc="The GPU model.", max_length=63)]
    provider: Annotated[str, Field(doc="The provider.", max_length=63)]
    region: Annotated[str | None, Field(doc="Where.", max_length=63)] = None
    price_per_hour: Annotated[str, Field(doc="Dollars per hour for the machine.", max_length=16)] = "0.00"
    gpu_count: Annotated[int, Field(doc="GPUs in the machine.", minimum=0)] = 1
    memory_gib: Annotated[int | None, Field(doc="Memory of one GPU in GiB.", minimum=0)] = None
    spot: Annotated[bool, Field(doc="Whether the provider may interrupt the machine at any time.")] = False


class GPUNodeClassStatus(ApiStruct, frozen=True, kw_only=True):
    """What the operator observed of the class. Prices are written at most every five minutes, and only on a change."""

    conditions: Conditions = ()
    active_nodes: Annotated[int, Field(doc="Machines running or starting now.", minimum=0)] = 0
    hourly_cost: Annotated[str | None, Field(doc="Dollars per hour for all of them.", max_length=24)] = None
    total_cost: Annotated[
        str | None, Field(doc="Dollars spent on this class until `costAsOf`, an estimate.", max_length=24)
    ] = None
    cost_as_of: Annotated[
        datetime | None,
        Field(doc="When `totalCost` was computed; running machines have cost more since.", format="date-time"),
    ] = None
    providers: Annotated[
        dict[str, ProviderStatus], Field(doc="The last result from each provider.", max_properties=32)
    ] = msgspec.field(default_factory=dict)
    available_gpus: Annotated[
        tuple[GPUAvailability, ...],
        Field(doc="The cheapest offer per GPU model and provider.", max_items=256, list_type="atomic"),
    ] = ()


class GPUNodeClass(ApiStruct, frozen=True, kw_only=True):
    """Where GPU machines may be launched and how they join the cluster: the administrator's template.

    Pools and requests name a class. They can narrow what it allows, never widen it.
    """

    object_rules = (cel.NAME_FITS,)
    api_version: str = "tgp.io/v1"
    kind: str = "GPUNodeClass"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[GPUNodeClassSpec, Field(doc="The desired state, set by the administrator.")]
    status: Annotated[GPUNodeClassStatus, Field(doc="The observed state, written by the operator.")] = (
        GPUNodeClassStatus()
    )
