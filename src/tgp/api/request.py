"""GPURequest: one GPU machine, the durable record of an intent to pay."""

from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any

import msgspec

from tgp.api import cel, values
from tgp.api.cel import REQUIRED
from tgp.api.common import PROVIDER_NAMES, Conditions, Labels, NodeClassRef, ObjectMeta, TaintSpec
from tgp.api.field import ApiStruct, Field, Rule
from tgp.api.nodepool import GRACE_DOC, NODE_LABELS, grace
from tgp.api.talos import (
    EARLY_DROPPED,
    HOST_PORT,
    HOSTNAME,
    PRIVATE_KEY,
    ROUTES,
    WIREGUARD_KEY,
    Networks,
    TailscaleTags,
)

PHASES = ("Pending", "Provisioning", "Booting", "Joining", "Ready", "Terminating", "Finished", "Failed")
ATTEMPTS_KEPT = (
    32  # five failed launches fail a request, and so do sixteen losses; attempts without cost are dropped first
)

_REGION = cel.reads(r"^[!-~]+$", "must be printable characters without spaces")
_REGION_OR_EMPTY = cel.reads_or_empty(r"^[!-~]+$", "must be printable characters without spaces")
_CLASS_DECIDES = "Accepted because early manifests have it. The class decides: repeat its value, or omit the field."
_LIFE = (cel.DURATION_OR_NEVER, cel.SPAN_ABOVE_ZERO)


class RequestTailscale(ApiStruct, frozen=True, kw_only=True):
    """The tenant's part of the mesh settings."""

    hostname: Annotated[
        str | None,
        Field(
            doc="The device's exact name in the tailnet. Default: by the class.",
            min_length=1,
            max_length=63,
            rules=(HOSTNAME,),
        ),
    ] = None
    tags: TailscaleTags = ()
    ephemeral: Annotated[
        bool | None,
        Field(doc=_CLASS_DECIDES, deprecated=EARLY_DROPPED),
    ] = None
    accept_routes: Annotated[
        bool | None,
        Field(doc=_CLASS_DECIDES, deprecated=EARLY_DROPPED),
    ] = None
    advertise_routes: Annotated[
        Networks,
        replace(ROUTES, doc=_CLASS_DECIDES, deprecated=EARLY_DROPPED),
    ] = ()


class RequestWireGuard(ApiStruct, frozen=True, kw_only=True):
    """Deprecated: the inline tunnel of early manifests. Values only: a tenant's object reaches no Secret."""

    object_rules = (PRIVATE_KEY,)
    secret_members = ("private_key",)
    private_key: Annotated[str | None, Field(doc="The node's private key.", max_length=44)] = None
    public_key: Annotated[str | None, Field(doc="The server's public key.", max_length=44, rules=(WIREGUARD_KEY,))] = (
        None
    )
    server_endpoint: Annotated[
        str | None,
        Field(
            doc="Where the server listens: host:port.",
            max_length=261,
            rules=(HOST_PORT,),
        ),
    ] = None
    allowed_ips: Annotated[
        Networks,
        Field(doc="Networks reached through the tunnel, in CIDR form.", max_items=32, list_type="set"),
    ] = ()
    address: Annotated[
        str | None, Field(doc="The node's own address in the tunnel, in CIDR form.", max_length=49, rules=(cel.CIDR,))
    ] = None


class RequestTalos(ApiStruct, frozen=True, kw_only=True):
    """Settings of the operating system that a tenant may change. No templates, no Secrets: those are the class's."""

    image: Annotated[
        str | None,
        Field(
            doc="The Talos version, bare (v1.10.5) or as an image. Default: the class's.",
            min_length=1,
            max_length=320,
            rules=(cel.reads(values.TALOS_IMAGE, values.MESSAGE_TALOS),),
        ),
    ] = None
    tailscale_config: Annotated[
        RequestTailscale | None, Field(doc="The device's name, and tags within the class's list.")
    ] = None
    wire_guard_config: Annotated[
        RequestWireGuard | None,
        Field(doc="Deprecated: the inline tunnel of early manifests.", deprecated=EARLY_DROPPED),
    ] = None


class PinnedOffer(ApiStruct, frozen=True, kw_only=True):
    """One offer and no other."""

    provider: Annotated[str, Field(doc="The provider.", enum=PROVIDER_NAMES)]
    instance_type: Annotated[
        str, Field(doc="The provider's name for the machine.", min_length=1, max_length=253, rules=(_REGION,))
    ]
    region: Annotated[
        str | None, Field(doc="The region. Default: any.", min_length=1, max_length=63, rules=(_REGION,))
    ] = None


IMMUTABLE = (
    "nodeClassRef",
    "provider",
    "gpuType",
    "gpuCount",
    "region",
    "regions",
    "spot",
    "maxHourlyPrice",
    "exclusive",
    "restartPolicy",
    "terminationGracePeriod",
    "talosConfig",
    "taints",
    "offer",
)


def _stays(name: str) -> Rule:
    message = f"{name} is immutable: delete the request and create another"
    return cel.unchanged(name, message, sets=name in {"regions", "talosConfig"})


def _provider_agrees(self: dict[str, Any], _old: object) -> bool:
    return "offer" not in self or not self.get("provider") or self["provider"] == self["offer"]["provider"]


class GPURequestSpec(ApiStruct, frozen=True, kw_only=True):
    """Which machine to launch and for how long. Only maxLifetime (ttl), idleTimeout and labels can be changed later."""

    object_rules = (
        Rule(
            "has(self.gpuType) || has(self.offer)",
            "set gpuType to the GPU model, such as RTX4090",
            lambda self, _: "gpuType" in self or "offer" in self,
            field=".gpuType",
            reason=REQUIRED,
        ),
        cel.not_both("maxLifetime", "ttl", "ttl is the old name of maxLifetime: set one of them"),
        Rule(
            "!has(self.offer) || !has(self.provider) || self.provider == '' || self.provider == self.offer.provider",
            "offer names another provider",
            _provider_agrees,
            field=".provider",
        ),
        *(_stays(name) for name in IMMUTABLE),
    )
    node_class_ref: Annotated[
        NodeClassRef | None,
        Field(
            doc=(
                'The class of the machine. Default: the class annotated tgp.io/is-default-class: "true", or the only '
                "one, or an "
                "implicit class made of the keys found in the operator's Secret. Pinned in status when money is "
                "reserved."
            )
        ),
    ] = None
    provider: Annotated[
        str | None,
        Field(doc='Launch at this provider only. Absent or "": at the best one.', enum=("", *PROVIDER_NAMES)),
    ] = None
    gpu_type: Annotated[
        str | None,
        Field(
            doc=(
                "The GPU model, such as RTX4090. A family such as A100 accepts any of its members; nothing is ever "
                "silently "
                "substituted. Needed unless offer pins a machine."
            ),
            min_length=1,
            max_length=63,
            rules=(cel.GPU_NAME,),
        ),
    ] = None
    gpu_count: Annotated[int, Field(doc="GPUs in the machine. Default 1.", minimum=1, maximum=1024)] = 1
    region: Annotated[
        str | None,
        Field(
            doc="A region the machine may run in; together with regions.",
            max_length=63,
            rules=(_REGION_OR_EMPTY,),
        ),
    ] = None
    regions: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=63, rules=(_REGION,))], ...],
        Field(doc="Regions the machine may run in. Default: any the class allows.", max_items=64, list_type="set"),
    ] = ()
    spot: Annotated[
        bool,
        Field(
            doc=(
                "Default false. True: a spot machine, which the provider may interrupt at any time, where the class "
                "allows it."
            )
        ),
    ] = False
    max_hourly_price: Annotated[
        str | None,
        Field(doc='Maximum dollars per hour, such as "1.50".', max_length=16, rules=(cel.PRICE,)),
    ] = None
    exclusive: Annotated[
        bool,
        Field(
            doc=(
                "Default false. True: the Node also carries the taint tgp.io/request=<name of the request>:NoSchedule, "
                "so that only pods which tolerate that taint land on the machine."
            )
        ),
    ] = False
    max_lifetime: Annotated[
        str | None,
        Field(
            doc=(
                "Terminate the machine after this long. Default 24h; Never switches it off, with a warning. An Event "
                "warns at 80 % of it."
            ),
            max_length=32,
            rules=_LIFE,
        ),
    ] = None
    ttl: Annotated[
        str | None, Field(doc="The old name of maxLifetime.", max_length=32, rules=_LIFE, deprecated=EARLY_DROPPED)
    ] = None
    idle_timeout: Annotated[
        str,
        Field(
            doc=(
                "Terminate the machine when no running pod on the node has requested a GPU for this long. Default "
                "30m; Never switches it off, with a warning. Missing evidence counts as busy."
            ),
            max_length=32,
            rules=_LIFE,
        ),
    ] = "30m"
    restart_policy: Annotated[
        str,
        Field(
            doc=(
                "Never (default): when the machine is lost, the request becomes Failed, reason Lost. OnLoss: another "
                "attempt within the same maxLifetime and limits."
            ),
            enum=("Never", "OnLoss"),
        ),
    ] = "Never"
    termination_grace_period: Annotated[str, grace(GRACE_DOC)] = "1h"
    talos_config: Annotated[
        RequestTalos | None, Field(doc="Settings of the operating system that a tenant may change.")
    ] = None
    labels: Annotated[Labels, NODE_LABELS] = msgspec.field(default_factory=dict)
    taints: Annotated[
        tuple[TaintSpec, ...], Field(doc="Taints of this one machine's Node.", max_items=32, list_type="atomic")
    ] = ()
    offer: Annotated[
        PinnedOffer | None, Field(doc="Launch exactly this: provider, instance type and region. Pools write it.")
    ] = None


class ChosenOffer(ApiStruct, frozen=True, kw_only=True):
    """The offer an attempt is about, at the price that was agreed. What is absent has its usual value."""

    provider: Annotated[str, Field(doc="The provider.", max_length=63)]
    instance_type: Annotated[str, Field(doc="The provider's name for the machine.", max_length=253)]
    sku: Annotated[
        str | None, Field(doc="The provider's product id, where it is not the instance type.", max_length=253)
    ] = None
    region: Annotated[str | None, Field(doc="The region.", max_length=63)] = None
    gpu_type: Annotated[str | None, Field(doc="The GPU model.", max_length=63)] = None
    gpu_count: Annotated[int | None, Field(doc="GPUs in the machine.", minimum=0)] = None
    gpu_memory_gib: Annotated[int | None, Field(doc="Memory of one GPU in GiB.", minimum=0)] = None
    vcpus: Annotated[int | None, Field(doc="Virtual CPUs; absent: unknown.", minimum=0)] = None
    memory_gib: Annotated[int | None, Field(doc="Memory in GiB; absent: unknown.", minimum=0)] = None
    disk_gib: Annotated[
        int | None, Field(doc="The machine's own disk in GiB; absent: the order chooses its size.", minimum=0)
    ] = None
    arch: Annotated[str | None, Field(doc="The CPU's architecture; absent: amd64.", max_length=16)] = None
    place: Annotated[str | None, Field(doc="The provider's name for the location.", max_length=253)] = None
    country: Annotated[str | None, Field(doc="The country, as ISO 3166 names it: NL.", max_length=63)] = None
    host: Annotated[str | None, Field(doc="Of marketplaces: the id of the host.", max_length=253)] = None
    boot_mode: Annotated[
        str | None, Field(doc="How the machine becomes a node: native, takeover or power.", max_length=16)
    ] = None
    untrusted: Annotated[
        bool, Field(doc="Whether a third party owns the host. The owner of a host can read what runs there.")
    ] = False
    verified: Annotated[
        bool, Field(doc="Of a host that a third party owns: whether the provider has checked the host.")
    ] = False
    until: Annotated[
        datetime | None,
        Field(doc="When the machine's owner takes it back; absent: no such time is known.", format="date-time"),
    ] = None
    spot: Annotated[bool, Field(doc="Whether the provider may interrupt the machine.")] = False
    hourly_price: Annotated[
        str | None,
        Field(doc="Dollars per hour at the order; for spot machines the bid. Limits count it.", max_length=24),
    ] = None


class Attempt(ApiStruct, frozen=True, kw_only=True):
    """One attempt to launch a machine. The attempt is written before the provider is called."""

    number: Annotated[int, Field(doc="The number of the attempt, from 1.", minimum=1)]
    token: Annotated[str, Field(doc="The token that marks the machine at the provider.", max_length=63)]
    offer: Annotated[ChosenOffer | None, Field(doc="What was ordered.")] = None
    account: Annotated[
        str | None,
        Field(
            doc=(
                "The account of the order, by its id in ConfigMap tgp-accounts of the operator's namespace. No "
                "provider is called for an id that is not there."
            ),
            max_length=63,
        ),
    ] = None
    epoch: Annotated[str | None, Field(doc="The term of the leader that reserved it.", max_length=128)] = None
    reserved_at: Annotated[datetime | None, Field(doc="When the attempt was written.", format="date-time")] = None
    launched_at: Annotated[
        datetime | None, Field(doc="When the provider confirmed the launch.", format="date-time")
    ] = None
    provider_ends_at: Annotated[
        datetime | None,
        Field(
            doc=(
                "When the provider terminates the machine by itself at the earliest, even if no operator runs any "
                "more: set by the order, after maxLifetime, and fixed from then on. Absent: the provider cannot do "
                "that, or the lifetime has no limit."
            ),
            format="date-time",
        ),
    ] = None
    announced_end: Annotated[
        datetime | None,
        Field(
            doc=(
                "When the provider takes the machine of a pool back, as two of its lists have shown since the order. "
                "Absent: no other time than offer.until is known."
            ),
            format="date-time",
        ),
    ] = None
    announced_at: Annotated[datetime | None, Field(doc="When announcedEnd was read first.", format="date-time")] = None
    progress_at: Annotated[
        datetime | None,
        Field(doc="When the start last made progress; deadlines move with it.", format="date-time"),
    ] = None
    termination_accepted_at: Annotated[
        datetime | None,
        Field(
            doc="When the provider listed the machine and accepted its termination.",
            format="date-time",
        ),
    ] = None
    ended_at: Annotated[datetime | None, Field(doc="When the attempt ended.", format="date-time")] = None
    counts_until: Annotated[
        datetime | None,
        Field(
            doc=(
                "Until when the machine still counts against the class's limits although the attempt ended: the "
                "provider no longer listed the machine, and never accepted or reported its termination, so it may "
                "still run and be billed."
            ),
            format="date-time",
        ),
    ] = None
    hourly_price: Annotated[str | None, Field(doc="Dollars per hour, as the provider bills.", max_length=24)] = None
    max_hourly_price: Annotated[
        str | None,
        Field(
            doc="Maximum dollars per hour of the order. Limits count it until the billed price is known.",
            max_length=24,
        ),
    ] = None
    spent: Annotated[str | None, Field(doc="Dollars the attempt cost, once it has ended.", max_length=24)] = None
    instance_id: Annotated[str | None, Field(doc="The provider's id of the machine.", max_length=253)] = None
    outcome: Annotated[
        str | None,
        Field(
            doc=(
                "The outcome: Launched while the machine is ours; then Terminated, Lost or Failed (the machine was "
                "unusable). Without a machine: SoldOut, Refused, KeyRefused, QuotaOrBalanceExhausted, Busy, "
                "NotOrdered (never ordered) or NotCreated (shown not to exist). No outcome: not known yet."
            ),
            max_length=63,
        ),
    ] = None
    message: Annotated[str | None, Field(doc="The provider's message.", max_length=1024)] = None


class GPURequestStatus(ApiStruct, frozen=True, kw_only=True):
    """The observed state of the request."""

    phase: Annotated[
        str | None,
        Field(doc="A summary for people: " + ", ".join(PHASES) + ". The conditions are authoritative.", enum=PHASES),
    ] = None
    conditions: Conditions = ()
    message: Annotated[str | None, Field(doc="Why the request is in this phase, in a sentence.", max_length=4096)] = (
        None
    )
    node_class: Annotated[str | None, Field(doc="The class that the request was reserved with.", max_length=63)] = None
    attempts: Annotated[
        tuple[Attempt, ...],
        Field(
            doc="The last attempts to launch a machine.", max_items=ATTEMPTS_KEPT, list_type="map", list_key="number"
        ),
    ] = ()
    selected_provider: Annotated[str | None, Field(doc="The provider of the machine.", max_length=63)] = None
    offer: Annotated[ChosenOffer | None, Field(doc="The offer that was chosen.")] = None
    instance_id: Annotated[str | None, Field(doc="The provider's id of the machine.", max_length=253)] = None
    hourly_price: Annotated[str | None, Field(doc="Dollars per hour, rounded up to the cent.", max_length=24)] = None
    spent: Annotated[
        str | None,
        Field(doc="Dollars spent until `spentAsOf`, an estimate from confirmed running times.", max_length=24),
    ] = None
    spent_as_of: Annotated[
        datetime | None,
        Field(doc="When `spent` was computed; a running machine has cost more since.", format="date-time"),
    ] = None
    public_ip: Annotated[str | None, Field(doc="The machine's public address.", max_length=63)] = None
    private_ip: Annotated[str | None, Field(doc="The machine's address in the provider's network.", max_length=63)] = (
        None
    )
    mesh_hostname: Annotated[str | None, Field(doc="The machine's name in the mesh.", max_length=253)] = None
    mesh_address: Annotated[str | None, Field(doc="The machine's address in the mesh.", max_length=63)] = None
    node_name: Annotated[str | None, Field(doc="The machine's Node.", max_length=253)] = None
    provisioned_at: Annotated[
        datetime | None, Field(doc="When the provider confirmed the machine.", format="date-time")
    ] = None
    ready_at: Annotated[
        datetime | None, Field(doc="When the Node was first ready with its GPUs.", format="date-time")
    ] = None
    idle_since: Annotated[datetime | None, Field(doc="Since when no pod has used a GPU.", format="date-time")] = None
    termination_scheduled_at: Annotated[
        datetime | None,
        Field(
            doc="When the machine will be terminated as things stand: at maxLifetime, or at idleTimeout where that "
            "comes first. Idle time counts from when the Node is ready, and only while no pod uses a GPU there.",
            format="date-time",
        ),
    ] = None


class GPURequest(ApiStruct, frozen=True, kw_only=True):
    """One GPU machine: launched, joined, and terminated when idle, expired or lost.

    Deleting the object terminates the machine. A request that has ended stays with its reason and its cost.
    """

    object_rules = (cel.NAME_FITS,)
    api_version: str = "tgp.io/v1"
    kind: str = "GPURequest"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[GPURequestSpec, Field(doc="The desired state.")]
    status: Annotated[GPURequestStatus, Field(doc="The observed state, written by the operator.")] = GPURequestStatus()
