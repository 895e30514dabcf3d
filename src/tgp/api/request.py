"""GPURequest: one GPU machine, the durable record of an intent to pay."""

from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any

import msgspec

from tgp.api import rules, values
from tgp.api.common import PROVIDER_NAMES, Conditions, Labels, NodeClassRef, ObjectMeta, Taint
from tgp.api.field import Field, Rule, Wire
from tgp.api.nodepool import GRACE_DOC, NODE_LABELS, grace
from tgp.api.rules import REQUIRED
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
ATTEMPTS_KEPT = 32  # five failed launches end a request, sixteen losses, too; those that cost nothing are dropped first

_REGION = rules.reads(r"^[!-~]+$", "must be printable characters without blanks")
_REGION_OR_EMPTY = rules.reads_or_empty(r"^[!-~]+$", "must be printable characters without blanks")
_CLASS_DECIDES = "Accepted because early manifests have it. The class decides: say the same, or nothing."
_LIFE = (rules.DURATION_OR_NEVER, rules.SPAN_ABOVE_ZERO)


class RequestTailscale(Wire, frozen=True, kw_only=True):
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


class RequestWireGuard(Wire, frozen=True, kw_only=True):
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
        str | None, Field(doc="The node's own address in the tunnel, in CIDR form.", max_length=49, rules=(rules.CIDR,))
    ] = None


class RequestTalos(Wire, frozen=True, kw_only=True):
    """What a tenant may say about the operating system. No templates, no Secrets: those are the class's."""

    image: Annotated[
        str | None,
        Field(
            doc="The Talos version, bare (v1.10.5) or as an image. Default: the class's.",
            min_length=1,
            max_length=320,
            rules=(rules.reads(values.TALOS_IMAGE, values.WORDS_TALOS),),
        ),
    ] = None
    tailscale_config: Annotated[
        RequestTailscale | None, Field(doc="The device's name, and tags within the class's list.")
    ] = None
    wire_guard_config: Annotated[
        RequestWireGuard | None,
        Field(doc="Deprecated: the inline tunnel of early manifests.", deprecated=EARLY_DROPPED),
    ] = None


class PinnedOffer(Wire, frozen=True, kw_only=True):
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
    message = f"{name} cannot be changed once written: delete the request and write another"
    return rules.unchanged(name, message, sets=name in {"regions", "talosConfig"})


def _provider_agrees(self: dict[str, Any], _old: object) -> bool:
    return "offer" not in self or not self.get("provider") or self["provider"] == self["offer"]["provider"]


class GPURequestSpec(Wire, frozen=True, kw_only=True):
    """What to rent and for how long. Only maxLifetime (ttl), idleTimeout and labels can be changed later."""

    object_rules = (
        Rule(
            "has(self.gpuType) || has(self.offer)",
            "say which GPU to rent, such as RTX4090",
            lambda self, _: "gpuType" in self or "offer" in self,
            field=".gpuType",
            reason=REQUIRED,
        ),
        rules.not_both("maxLifetime", "ttl", "ttl is the old name of maxLifetime: set one of them"),
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
                'The class to rent by. Default: the class annotated tgp.io/is-default-class: "true", or the only '
                "one, or an "
                "implicit class made of the keys found in the operator's Secret. Pinned in status when money is "
                "reserved."
            )
        ),
    ] = None
    provider: Annotated[
        str | None, Field(doc='Rent from this provider only. Absent or "": from the best.', enum=("", *PROVIDER_NAMES))
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
            rules=(rules.GPU_NAME,),
        ),
    ] = None
    gpu_count: Annotated[int, Field(doc="GPUs in the machine. Default 1.", minimum=1, maximum=1024)] = 1
    region: Annotated[
        str | None,
        Field(
            doc="A region the machine may stand in; together with regions.",
            max_length=63,
            rules=(_REGION_OR_EMPTY,),
        ),
    ] = None
    regions: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=63, rules=(_REGION,))], ...],
        Field(doc="Regions the machine may stand in. Default: any the class allows.", max_items=64, list_type="set"),
    ] = ()
    spot: Annotated[
        bool,
        Field(doc="Default false. True: a machine the provider may take back at any time, where the class allows it."),
    ] = False
    max_hourly_price: Annotated[
        str | None,
        Field(doc='At most this many dollars per hour, such as "1.50".', max_length=16, rules=(rules.PRICE,)),
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
                "Give back after this long. Default 24h; Never switches it off, with a warning. An Event warns at 80 "
                "% of it."
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
                "Give back when no running pod on the node has requested a GPU for this long. Default 30m; Never "
                "switches it off, "
                "with a warning. Missing evidence counts as busy."
            ),
            max_length=32,
            rules=_LIFE,
        ),
    ] = "30m"
    restart_policy: Annotated[
        str,
        Field(
            doc=(
                "Never (default): a lost machine ends the request as Failed, reason Lost. OnLoss: another attempt "
                "within the same life and limits."
            ),
            enum=("Never", "OnLoss"),
        ),
    ] = "Never"
    termination_grace_period: Annotated[str, grace(GRACE_DOC)] = "1h"
    talos_config: Annotated[RequestTalos | None, Field(doc="What a tenant may say about the operating system.")] = None
    labels: Annotated[Labels, NODE_LABELS] = msgspec.field(default_factory=dict)
    taints: Annotated[
        tuple[Taint, ...], Field(doc="Taints of this one machine's Node.", max_items=32, list_type="atomic")
    ] = ()
    offer: Annotated[
        PinnedOffer | None, Field(doc="Rent exactly this: provider, instance type and region. Pools write it.")
    ] = None


class ChosenOffer(Wire, frozen=True, kw_only=True):
    """The offer an attempt is about."""

    provider: Annotated[str, Field(doc="The provider.", max_length=63)]
    instance_type: Annotated[str, Field(doc="The provider's name for the machine.", max_length=253)]
    sku: Annotated[
        str | None, Field(doc="What is ordered, in the provider's words, where it is not the type.", max_length=253)
    ] = None
    region: Annotated[str | None, Field(doc="The region.", max_length=63)] = None
    gpu_type: Annotated[str | None, Field(doc="The GPU model.", max_length=63)] = None
    gpu_count: Annotated[int | None, Field(doc="GPUs in the machine.", minimum=0)] = None
    gpu_memory_gib: Annotated[int | None, Field(doc="Memory of one GPU in GiB.", minimum=0)] = None
    vcpus: Annotated[int | None, Field(doc="Virtual CPUs; absent: not told.", minimum=0)] = None
    memory_gib: Annotated[int | None, Field(doc="Memory in GiB; absent: not told.", minimum=0)] = None
    place: Annotated[str | None, Field(doc="Where, in the provider's words.", max_length=253)] = None
    host: Annotated[str | None, Field(doc="Of marketplaces: the machine itself.", max_length=253)] = None
    boot_mode: Annotated[str | None, Field(doc="How it becomes a node: native, takeover or power.", max_length=16)] = (
        None
    )
    untrusted: Annotated[
        bool, Field(doc="Does somebody else than the provider own the host? Whoever does can read what runs there.")
    ] = False
    spot: Annotated[bool, Field(doc="May the provider take it back?")] = False
    hourly_price: Annotated[
        str | None,
        Field(doc="Dollars per hour when it was ordered, of spot machines the bid; limits count it.", max_length=24),
    ] = None


class Attempt(Wire, frozen=True, kw_only=True):
    """One attempt to rent a machine. It is written before the provider is asked."""

    number: Annotated[int, Field(doc="1 for the first.", minimum=1)]
    token: Annotated[str, Field(doc="The mark the machine carries at the provider.", max_length=63)]
    offer: Annotated[ChosenOffer | None, Field(doc="What was ordered.")] = None
    account: Annotated[
        str | None,
        Field(
            doc=(
                "The account it was ordered in, by its id in ConfigMap tgp-accounts of the operator's namespace. No "
                "provider is asked for an id that is not there."
            ),
            max_length=63,
        ),
    ] = None
    epoch: Annotated[str | None, Field(doc="Which leader reserved it.", max_length=128)] = None
    reserved_at: Annotated[datetime | None, Field(doc="When it was written down.", format="date-time")] = None
    launched_at: Annotated[datetime | None, Field(doc="When the provider confirmed it.", format="date-time")] = None
    progress_at: Annotated[
        datetime | None,
        Field(doc="When its start was last seen to get on; deadlines move with it.", format="date-time"),
    ] = None
    termination_accepted_at: Annotated[
        datetime | None,
        Field(
            doc="When the provider listed the machine and accepted its termination.",
            format="date-time",
        ),
    ] = None
    ended_at: Annotated[datetime | None, Field(doc="When it was over.", format="date-time")] = None
    counts_until: Annotated[
        datetime | None,
        Field(
            doc=(
                "Until when its machine counts against the class's limits although it is over: the provider no longer "
                "listed it, and never accepted or announced its end, so it may run on and cost."
            ),
            format="date-time",
        ),
    ] = None
    hourly_price: Annotated[str | None, Field(doc="Dollars per hour, as the provider bills.", max_length=24)] = None
    max_hourly_price: Annotated[
        str | None,
        Field(
            doc="Dollars per hour that the order allows at most; limits count them until the billed price is known.",
            max_length=24,
        ),
    ] = None
    spent: Annotated[str | None, Field(doc="Dollars it cost, once it is over.", max_length=24)] = None
    instance_id: Annotated[str | None, Field(doc="The provider's id of the machine.", max_length=253)] = None
    outcome: Annotated[
        str | None,
        Field(
            doc=(
                "How it went: Launched while the machine is ours; then Returned, Lost or Failed (it was no use). "
                "Without a machine: SoldOut, Refused, KeyRefused, Exhausted, Busy, Withdrawn (never ordered) or "
                "Absent (shown not to exist). No outcome: not known yet."
            ),
            max_length=63,
        ),
    ] = None
    message: Annotated[str | None, Field(doc="What the provider said.", max_length=1024)] = None


class GPURequestStatus(Wire, frozen=True, kw_only=True):
    """What became of the request."""

    phase: Annotated[
        str | None,
        Field(doc="A summary for people: " + ", ".join(PHASES) + ". The conditions carry the truth.", enum=PHASES),
    ] = None
    conditions: Conditions = ()
    message: Annotated[str | None, Field(doc="Why it is where it is, in a sentence.", max_length=4096)] = None
    node_class: Annotated[str | None, Field(doc="The class it was reserved by.", max_length=63)] = None
    attempts: Annotated[
        tuple[Attempt, ...],
        Field(doc="Attempts to rent, the last ones.", max_items=ATTEMPTS_KEPT, list_type="map", list_key="number"),
    ] = ()
    selected_provider: Annotated[str | None, Field(doc="Where the machine is.", max_length=63)] = None
    offer: Annotated[ChosenOffer | None, Field(doc="What was chosen.")] = None
    instance_id: Annotated[str | None, Field(doc="The provider's id of the machine.", max_length=253)] = None
    hourly_price: Annotated[str | None, Field(doc="Dollars per hour.", max_length=24)] = None
    spent: Annotated[
        str | None,
        Field(doc="Dollars spent until `spentAsOf`, an estimate from confirmed running times.", max_length=24),
    ] = None
    spent_as_of: Annotated[
        datetime | None,
        Field(doc="When `spent` was counted; a machine that runs has cost more since.", format="date-time"),
    ] = None
    public_ip: Annotated[str | None, Field(doc="The machine's public address.", max_length=63)] = None
    private_ip: Annotated[str | None, Field(doc="Its address in the provider's network.", max_length=63)] = None
    mesh_hostname: Annotated[str | None, Field(doc="Its name in the mesh.", max_length=253)] = None
    mesh_address: Annotated[str | None, Field(doc="Its address in the mesh.", max_length=63)] = None
    node_name: Annotated[str | None, Field(doc="The Node it became.", max_length=253)] = None
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
            doc="When it will be given back as things stand: at the end of its life, or of its idle time where that "
            "comes first. Idle time counts from when it is ready, and only while no pod uses a GPU there.",
            format="date-time",
        ),
    ] = None


class GPURequest(Wire, frozen=True, kw_only=True):
    """One GPU machine: rented, joined, and given back when idle, old or lost.

    Deleting the object gives the machine back. A request that has ended stays with its reason and its cost.
    """

    object_rules = (rules.NAME_FITS,)
    api_version: str = "tgp.io/v1"
    kind: str = "GPURequest"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[GPURequestSpec, Field(doc="What is wanted.")]
    status: Annotated[GPURequestStatus, Field(doc="What became of it.")] = GPURequestStatus()
