"""GPUNodePool: the demand side. Which class, which machines, when they may be disrupted, what they may cost."""

from datetime import datetime
from typing import Annotated, Any

import msgspec

from tgp.api import cel
from tgp.api.cel import one_of
from tgp.api.common import (
    LABELS_MAX,
    REQUIREMENT_KEYS,
    Conditions,
    Labels,
    NodeClassRef,
    NodeRequirement,
    ObjectMeta,
    Quantities,
    TaintSpec,
)
from tgp.api.field import ApiStruct, Field, Rule

CONSOLIDATION_ALIASES = {"WhenIdle": "WhenEmpty", "WhenUnderutilized": "WhenEmptyOrUnderutilized"}
CONSOLIDATION_POLICIES = ("WhenEmpty", "WhenEmptyOrUnderutilized", "Never", *CONSOLIDATION_ALIASES)
DISRUPTION_REASONS = ("Empty", "Underutilized", "Drifted", "Expired")

NODE_LABELS = Field(
    doc=(
        "Labels of the Node. Refused: the domains kubernetes.io, k8s.io and node-restriction.kubernetes.io, except "
        f"node.kubernetes.io, kubelet.kubernetes.io, {', '.join(cel.OPEN_LABELS)}; and tgp.io, which is "
        "reserved for the operator."
    ),
    max_properties=LABELS_MAX,
    rules=(cel.QUALIFIED_KEYS, cel.OPEN_DOMAINS, cel.NOT_OURS),
)


def canonical_policy(policy: str) -> str:
    """The policy an accepted spelling means: the older WhenIdle is WhenEmpty."""
    return CONSOLIDATION_ALIASES.get(policy, policy)


class TemplateMetadata(ApiStruct, frozen=True, kw_only=True):
    """What each Node of the pool carries."""

    labels: Annotated[Labels, NODE_LABELS] = msgspec.field(default_factory=dict)
    annotations: Annotated[
        dict[str, Annotated[str, Field(max_length=4096)]],
        Field(
            doc="Annotations of the Node. The same domains are refused as for labels.",
            max_properties=LABELS_MAX,
            rules=(cel.QUALIFIED_KEYS, cel.OPEN_DOMAINS),
        ),
    ] = msgspec.field(default_factory=dict)


def grace(doc: str) -> Field:
    return Field(doc=doc, max_length=32, rules=(cel.DURATION_OR_NEVER,))


GRACE_DOC = "How long a drain may wait for PodDisruptionBudgets and do-not-disrupt. Default 1h; Never: no time limit."


class TemplateSpec(ApiStruct, frozen=True, kw_only=True):
    """What machines the pool wants."""

    requirements: Annotated[
        tuple[NodeRequirement, ...],
        Field(
            doc=(
                "Conditions on the machine; all must hold. Example: key tgp.io/gpu-type, operator In, values [RTX4090]."
            ),
            max_items=32,
            list_type="atomic",
        ),
    ] = ()
    taints: Annotated[
        tuple[TaintSpec, ...],
        Field(
            doc="Taints the Node registers with. A pod can drive the pool only if it tolerates all of them.",
            max_items=32,
            list_type="atomic",
        ),
    ] = ()
    startup_taints: Annotated[
        tuple[TaintSpec, ...],
        Field(
            doc=(
                "Taints the Node registers with and another controller removes; until then the Node does not count as "
                "initialised. "
                "Pods need not tolerate them."
            ),
            max_items=32,
            list_type="atomic",
        ),
    ] = ()
    ephemeral_taint: Annotated[
        bool | None,
        Field(
            doc=(
                "Whether every machine carries tgp.io/ephemeral:NoSchedule besides. Default true, false for machines "
                "you own. "
                "If that taint alone keeps a pod away, the pod gets an Event."
            )
        ),
    ] = None
    termination_grace_period: Annotated[str, grace(GRACE_DOC)] = "1h"


def _keys_are_known(self: dict[str, Any], _old: object) -> bool:
    own = self.get("metadata", {}).get("labels", {})
    wanted = self.get("spec", {}).get("requirements", [])
    return all(requirement["key"] in REQUIREMENT_KEYS or requirement["key"] in own for requirement in wanted)


class NodeTemplate(ApiStruct, frozen=True, kw_only=True):
    """The Nodes of the pool."""

    object_rules = (
        Rule(
            "!has(self.spec) || !has(self.spec.requirements) || self.spec.requirements.all(r, r.key in "
            f"{one_of(*REQUIREMENT_KEYS)}"
            " || (has(self.metadata) && has(self.metadata.labels) && r.key in self.metadata.labels))",
            f"no machine carries that label: keys are {', '.join(REQUIREMENT_KEYS)}, and the labels in "
            "template.metadata.labels",
            _keys_are_known,
            field=".spec.requirements",
        ),
    )
    metadata: Annotated[TemplateMetadata | None, Field(doc="Labels and annotations of the Nodes.")] = None
    spec: Annotated[TemplateSpec, Field(doc="What machines are wanted.")] = TemplateSpec()


class DisruptionRule(ApiStruct, frozen=True, kw_only=True):
    """How many nodes may be disrupted at the same time. Of several budgets that apply, the strictest holds."""

    object_rules = (
        Rule(
            "has(self.schedule) == has(self.duration)",
            "schedule and duration go together: when it begins, and how long it lasts",
            lambda self, _: ("schedule" in self) == ("duration" in self),
            field=".schedule",
        ),
        Rule(
            "!has(self.timeZone) || has(self.schedule)",
            "timeZone is the time zone of schedule, which is missing",
            lambda self, _: "timeZone" not in self or "schedule" in self,
            field=".timeZone",
        ),
    )
    nodes: Annotated[
        int | str,
        Field(
            doc=(
                'A number of nodes, or a percentage of the pool rounded up, such as "10%" (default). 0 forbids '
                "disruption."
            ),
            max_length=8,
            minimum=0,
            maximum=10_000,
            rules=(cel.NODES,),
        ),
    ] = "10%"
    schedule: Annotated[
        str | None,
        Field(
            doc=(
                'When the budget begins to apply, as five cron fields or @daily and the like: "0 9 * * 1-5". '
                "Needs duration. Default: it always applies."
            ),
            min_length=1,
            max_length=128,
            rules=(cel.CRON,),
        ),
    ] = None
    duration: Annotated[
        str | None,
        Field(
            doc="How long it applies from each tick of schedule, such as 8h. Needs schedule.",
            max_length=32,
            rules=(cel.DURATION, cel.SPAN_ABOVE_ZERO),
        ),
    ] = None
    time_zone: Annotated[
        str | None,
        Field(
            doc="IANA time zone of schedule, such as Europe/Berlin. Default UTC.",
            max_length=64,
            rules=(cel.TIME_ZONE,),
        ),
    ] = None
    reasons: Annotated[
        tuple[Annotated[str, Field(enum=DISRUPTION_REASONS)], ...],
        Field(
            doc="Which disruptions it limits: Empty, Underutilized, Drifted, Expired. Default: all of them.",
            max_items=8,
            list_type="set",
        ),
    ] = ()


class Disruption(ApiStruct, frozen=True, kw_only=True):
    """When healthy nodes are terminated or replaced."""

    consolidation_policy: Annotated[
        str,
        Field(
            doc=(
                "WhenEmpty (default): nodes without pods are terminated. WhenEmptyOrUnderutilized: pods are also "
                "moved together "
                "where that saves money. Never: neither. The older names WhenIdle and WhenUnderutilized mean the "
                "first two."
            ),
            enum=CONSOLIDATION_POLICIES,
        ),
    ] = "WhenEmpty"
    consolidate_after: Annotated[
        str,
        Field(
            doc=(
                "How long a node must be idle before it is terminated, such as 10m (default) or 0s; Never switches "
                "it off."
            ),
            max_length=32,
            rules=(cel.DURATION_OR_NEVER,),
        ),
    ] = "10m"
    expire_after: Annotated[
        str,
        Field(
            doc="The longest life of a node, such as 720h; then it is replaced. Default Never.",
            max_length=32,
            rules=(cel.DURATION_OR_NEVER, cel.SPAN_ABOVE_ZERO),
        ),
    ] = "Never"
    min_savings: Annotated[
        str,
        Field(
            doc=(
                "With WhenEmptyOrUnderutilized: minimum saving, as a share of the replaced machines' price, after "
                'restart costs. Default "5%".'
            ),
            max_length=4,
            rules=(cel.PERCENT,),
        ),
    ] = "5%"
    budgets: Annotated[
        tuple[DisruptionRule, ...],
        Field(
            doc=(
                "How many nodes may be disrupted at the same time, and when. Default: one budget of 10 % of the "
                "nodes, at least 1. "
                'Example: nodes: 0, schedule: "0 9 * * 1-5", duration: 8h, timeZone: Europe/Berlin leaves working '
                "hours undisturbed."
            ),
            max_items=16,
            list_type="atomic",
        ),
    ] = (DisruptionRule(),)


class PoolLimits(ApiStruct, frozen=True, kw_only=True):
    """Hard limits of the pool, within those of its class."""

    resources: Annotated[
        Quantities,
        Field(
            doc=(
                "Maximum resources of all its machines together: nvidia.com/gpu, amd.com/gpu, cpu, memory, nodes. "
                'Example: {"nvidia.com/gpu": 8, "nodes": 4}.'
            ),
            max_properties=32,
            rules=(cel.QUALIFIED_KEYS,),
        ),
    ] = msgspec.field(default_factory=dict)


class GPUNodePoolSpec(ApiStruct, frozen=True, kw_only=True):
    """Machines that are launched and terminated with the pods that need them."""

    node_class_ref: Annotated[
        NodeClassRef,
        Field(
            doc="The class of the machines. While the class does not exist the pool is not Ready (NodeClassNotFound)."
        ),
    ]
    template: Annotated[NodeTemplate, Field(doc="Labels, annotations, taints and requirements of the Nodes.")] = (
        NodeTemplate()
    )
    replicas: Annotated[
        int | None,
        Field(
            doc="A fixed number of machines, independent of pods. Default: as many as the pods need.",
            minimum=0,
            maximum=10_000,
        ),
    ] = None
    mode: Annotated[
        str,
        Field(
            doc=(
                "Active (default) launches machines. Observe plans, reports in status.wouldBuy what it would launch, "
                "and launches nothing."
            ),
            enum=("Active", "Observe"),
        ),
    ] = "Active"
    disruption: Annotated[Disruption, Field(doc="When nodes are terminated or replaced.")] = Disruption()
    limits: Annotated[PoolLimits | None, Field(doc="Hard limits of the pool.")] = None
    max_hourly_price: Annotated[
        str | None,
        Field(
            doc=(
                'Maximum dollars per hour of one machine, such as "2.0". For machines you own their own price counts.'
            ),
            max_length=16,
            rules=(cel.PRICE,),
        ),
    ] = None
    weight: Annotated[
        int,
        Field(
            doc=(
                "If several pools could serve a pod, the one with the highest weight does, at any price. 0 (default) "
                "to 100."
            ),
            minimum=0,
            maximum=100,
        ),
    ] = 0


class PlannedMachine(ApiStruct, frozen=True, kw_only=True):
    """A machine that observe mode would have launched."""

    provider: Annotated[str, Field(doc="Where.", max_length=63)]
    instance_type: Annotated[str, Field(doc="The provider's name for it.", max_length=253)]
    region: Annotated[str | None, Field(doc="The region.", max_length=63)] = None
    gpu_type: Annotated[str | None, Field(doc="The GPU model.", max_length=63)] = None
    gpu_count: Annotated[int, Field(doc="GPUs in the machine.", minimum=0)] = 0
    hourly_price: Annotated[str | None, Field(doc="Dollars per hour.", max_length=24)] = None
    count: Annotated[int, Field(doc="How many machines.", minimum=0)] = 1


class WouldHaveCost(ApiStruct, frozen=True, kw_only=True):
    """What the machines of wouldBuy would have cost, had they run as long as their pods waited."""

    total_cost: Annotated[str, Field(doc="Dollars since then, counted up to at.", max_length=24)]
    hourly_cost: Annotated[str, Field(doc="Dollars per hour of wouldBuy as it is now.", max_length=24)]
    since: Annotated[datetime, Field(doc="When the pool first would have launched a machine.", format="date-time")]
    at: Annotated[datetime, Field(doc="When totalCost was counted, at most 10 minutes ago.", format="date-time")]


class LastPlan(ApiStruct, frozen=True, kw_only=True):
    """The result of the last planning run."""

    at: Annotated[datetime | None, Field(doc="When the plan was made.", format="date-time")] = None
    gap: Annotated[
        str | None,
        Field(doc="How much more than the best possible plan this one costs at most, such as 0.8%.", max_length=16),
    ] = None
    gap_without: Annotated[
        str | None,
        Field(
            doc="What that best possible plan need not keep, such as zone topology: the gap includes what it costs.",
            max_length=64,
        ),
    ] = None
    orders: Annotated[int, Field(doc="Machines ordered.", minimum=0)] = 0
    unserved: Annotated[int, Field(doc="Pods for which the plan has no machine.", minimum=0)] = 0


class MoveStatus(ApiStruct, frozen=True, kw_only=True):
    """A machine that leaves, or that would leave and waits."""

    request: Annotated[str, Field(doc="The GPURequest of the machine.", max_length=253)]
    node: Annotated[str | None, Field(doc="Its Node.", max_length=253)] = None
    reason: Annotated[str, Field(doc="Why it leaves, or what it waits for.", max_length=64)]
    under_way: Annotated[bool, Field(doc="Whether the move has begun.")] = False
    since: Annotated[datetime | None, Field(doc="Since when.", format="date-time")] = None
    message: Annotated[str | None, Field(doc="What is done next, or what it waits for.", max_length=1024)] = None


class GPUNodePoolStatus(ApiStruct, frozen=True, kw_only=True):
    """What the operator observed of the pool."""

    conditions: Conditions = ()
    node_count: Annotated[int, Field(doc="Machines running or starting now.", minimum=0)] = 0
    resources: Annotated[
        dict[str, Annotated[int | str, Field(max_length=32)]],
        Field(doc="What they provide together.", max_properties=64),
    ] = msgspec.field(default_factory=dict)
    hourly_cost: Annotated[str | None, Field(doc="Dollars per hour for all of them.", max_length=24)] = None
    would_buy: Annotated[
        tuple[PlannedMachine, ...],
        Field(doc="In observe mode: what would be launched now.", max_items=64, list_type="atomic"),
    ] = ()
    would_have_cost: Annotated[
        WouldHaveCost | None, Field(doc="In observe mode: what the pool would have cost so far.")
    ] = None
    waiting_pods: Annotated[
        int,
        Field(
            doc="Pods that wait: for a machine of this pool that is on its way, or without any machine. One that no "
            "pool serves counts only at the pool that came nearest, so that all pools add up to all pods.",
            minimum=0,
        ),
    ] = 0
    last_plan: Annotated[LastPlan | None, Field(doc="The last plan in which the pool took part.")] = None
    moves: Annotated[
        tuple[MoveStatus, ...],
        Field(
            doc="Machines that leave, and others that would leave and wait; those under way first.",
            max_items=16,
            list_type="atomic",
        ),
    ] = ()


class GPUNodePool(ApiStruct, frozen=True, kw_only=True):
    """Machines of one class, launched when pods need them and terminated when no pod does.

    Pods in any namespace the class allows can drive a pool. Deleting a pool terminates its machines first.
    """

    object_rules = (cel.NAME_FITS,)
    api_version: str = "tgp.io/v1"
    kind: str = "GPUNodePool"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[GPUNodePoolSpec, Field(doc="The desired state.")]
    status: Annotated[GPUNodePoolStatus, Field(doc="The observed state, written by the operator.")] = (
        GPUNodePoolStatus()
    )
