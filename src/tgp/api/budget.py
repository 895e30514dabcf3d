"""GPUWorkloadBudget: GPU-hours a set of pods may use in a rolling window; and the legacy kind of the same name."""

from datetime import datetime
from typing import Annotated, Any

from tgp.api import cel
from tgp.api.common import Conditions, LabelSelector, ObjectMeta
from tgp.api.field import ApiStruct, Field, Rule

WINDOW_HOURS_MAX = 8784  # a leap year: longer windows would outgrow the account in the status
ACCOUNT_MAX = 262_144  # characters; an object must stay well below etcd's 1.5 MiB


def _selects_something(self: dict[str, Any], _old: object) -> bool:
    return bool(self.get("matchLabels") or self.get("matchExpressions"))


SELECTOR = Field(
    doc=(
        "Which pods of this namespace count. An empty selector is refused: it would silently count every pod. "
        "Example: matchLabels: {team: a}."
    ),
    rules=(
        Rule(
            "(has(self.matchLabels) && self.matchLabels.size() > 0) || (has(self.matchExpressions) && "
            "self.matchExpressions.size() > 0)",
            "must name at least one label: an empty selector would count every pod of the namespace",
            _selects_something,
        ),
    ),
)
GPU_HOURS = Field(
    doc='GPU-hours that may be used in the window: a whole number, or any quantity in quotes ("0.5"). At least 0.001.',
    max_length=32,
    rules=(cel.QUANTITY, cel.AT_LEAST_MILLI),
)
WINDOW_HOURS = Field(
    doc="How many hours the window looks back, whole hours. 24: what was used in the last day, at any moment.",
    minimum=1,
    maximum=WINDOW_HOURS_MAX,
)
ACTION = Field(
    doc=(
        "Evict: pods are evicted (PodDisruptionBudgets are respected). Pause: Jobs are suspended, and resumed when "
        "hours are left; other pods are only annotated tgp.io/paused-at. AlertOnly: an Event and a condition."
    ),
    enum=("Evict", "Pause", "AlertOnly"),
)
GRACE_SECONDS = Field(doc="How long over quota before acting, in seconds. Default 30.", minimum=0, maximum=31_536_000)
RESOURCE_NAME = Field(
    doc="The resource that is counted. Default nvidia.com/gpu; cpu makes a budget testable without GPUs.",
    min_length=1,
    max_length=317,
    rules=(cel.QUALIFIED,),
)


def _whole(hours: object) -> bool:
    """1.0 passes the schema as an integer, and not CEL."""
    return hours is None or isinstance(hours, int)


class ExtraHours(ApiStruct, frozen=True, kw_only=True):
    """Hours on top of the quota, for a while."""

    gpu_hours: Annotated[
        int | str,
        Field(
            doc='GPU-hours on top: a whole number, or any quantity in quotes ("0.5"). At least 0.001.',
            max_length=32,
            rules=(cel.QUANTITY, cel.AT_LEAST_MILLI),
        ),
    ]
    until: Annotated[
        datetime, Field(doc="When they expire, such as 2026-11-20T18:00:00Z.", format="date-time", max_length=64)
    ]
    reason: Annotated[str, Field(doc="Why they were granted, for people.", max_length=256)] = ""


class Quota(ApiStruct, frozen=True, kw_only=True):
    """How much may be used, in how many hours or in which period."""

    object_rules = (
        Rule(
            "has(self.windowHours) != has(self.calendar)",
            "windowHours or calendar must be given, and not both",
            lambda self, _: ("windowHours" in self) != ("calendar" in self) and _whole(self.get("windowHours")),
            field=".windowHours",
        ),
        Rule(
            "!has(self.timeZone) || has(self.calendar)",
            "timeZone needs calendar: a rolling window begins at no midnight",
            lambda self, _: "timeZone" not in self or "calendar" in self,
            field=".timeZone",
            reason=cel.FORBIDDEN,
        ),
    )
    gpu_hours: Annotated[int | str, GPU_HOURS]
    window_hours: Annotated[int | None, WINDOW_HOURS] = None
    calendar: Annotated[
        str | None,
        Field(
            doc=(
                "Instead of windowHours: what was used since the day, the week (Monday) or the month began. All hours "
                "come back when the next one begins."
            ),
            enum=("Day", "Week", "Month"),
        ),
    ] = None
    time_zone: Annotated[
        str | None,
        Field(
            doc="IANA time zone in which the period begins at midnight, such as Europe/Berlin. Default UTC.",
            max_length=64,
            rules=(cel.TIME_ZONE,),
        ),
    ] = None
    extra: Annotated[
        tuple[ExtraHours, ...],
        Field(
            doc="Hours on top of gpuHours, each until its own moment. `tgp budgets top-up` adds one.",
            max_items=16,
            list_type="atomic",
        ),
    ] = ()
    usd: Annotated[
        str | None,
        Field(
            doc='A second limit in dollars, from the price of the node each pod ran on, such as "250". Default: none.',
            max_length=16,
            rules=(cel.PRICE, cel.PRICE_ABOVE_ZERO),
        ),
    ] = None


class Enforcement(ApiStruct, frozen=True, kw_only=True):
    """What happens beyond the quota."""

    action: Annotated[str, ACTION]
    grace_period_seconds: Annotated[int, GRACE_SECONDS] = 30
    pod_grace_period_seconds: Annotated[
        int | None,
        Field(
            doc="Termination grace of an evicted pod, in seconds. Default: the pod's own.",
            minimum=0,
            maximum=31_536_000,
        ),
    ] = None
    admission: Annotated[
        str,
        Field(
            doc=(
                "What happens to new matching pods while over quota. Off (default): nothing. Gate: they wait behind "
                "a scheduling "
                "gate. Deny: they are refused."
            ),
            enum=("Off", "Gate", "Deny"),
        ),
    ] = "Off"


_ALERT = Rule(
    "type(self) == int ? (self >= 1 && self <= 1000) : self == 'forecast'",
    "must be a percentage of the quota from 1 to 1000, or the string forecast",
    lambda self, _: 1 <= self <= 1000 if isinstance(self, int) else self == "forecast",
)


class CountedWeight(ApiStruct, frozen=True, kw_only=True):
    """How much one unit of a resource, or one GPU of a model, counts."""

    object_rules = (
        Rule(
            "has(self.resource) != has(self.gpuType)",
            "resource or gpuType must be given, and not both",
            lambda self, _: ("resource" in self) != ("gpuType" in self),
            field=".resource",
        ),
    )
    resource: Annotated[
        str | None,
        Field(
            doc="Another resource that counts, such as nvidia.com/mig-1g.10gb or nvidia.com/gpu.shared.",
            min_length=1,
            max_length=317,
            rules=(cel.QUALIFIED,),
        ),
    ] = None
    gpu_type: Annotated[
        str | None,
        Field(
            doc="A GPU model as the label tgp.io/gpu-type of its Node names it, such as H100.",
            min_length=1,
            max_length=63,
            rules=(cel.GPU_NAME,),
        ),
    ] = None
    weight: Annotated[
        int | str,
        Field(
            doc='GPU-hours that one unit counts in an hour: a number above zero, as a decimal in quotes ("0.14").',
            max_length=32,
            rules=(cel.QUANTITY, cel.QUANTITY_ABOVE_ZERO),
        ),
    ]


class GPUWorkloadBudgetSpec(ApiStruct, frozen=True, kw_only=True):
    """Which pods count, how much they may use, and what happens beyond that."""

    object_rules = (
        cel.unchanged(
            "gpuResourceName", "gpuResourceName is immutable: hours of two resources cannot be added. Make a new budget"
        ),
    )
    selector: Annotated[LabelSelector, SELECTOR]
    namespace_selector: Annotated[
        LabelSelector | None,
        Field(
            doc=(
                "Pods of the namespaces with these labels, instead of this namespace; {} is every namespace. Only in "
                "the operator's own namespace. Budgets of those namespaces count the same pods, too."
            )
        ),
    ] = None
    quota: Annotated[Quota, Field(doc="How much may be used, in how many hours or in which period.")]
    weights: Annotated[
        tuple[CountedWeight, ...],
        Field(
            doc=(
                "Resources that count beside gpuResourceName, and GPU models that count more or less than 1. Of a pod "
                "the units of every resource are added up; the weight of the model multiplies that sum."
            ),
            max_items=32,
            list_type="atomic",
        ),
    ] = ()
    enforcement: Annotated[Enforcement, Field(doc="What happens beyond the quota.")]
    alerts: Annotated[
        tuple[Annotated[int | str, Field(max_length=8, rules=(_ALERT,))], ...],
        Field(
            doc=(
                "Percentages of the quota that raise an Event and a metric once, and the string forecast: when the "
                "quota will be "
                "used up before the window moves on. Default 80 and 100."
            ),
            max_items=16,
            list_type="set",
        ),
    ] = (80, 100)
    gpu_resource_name: Annotated[str, RESOURCE_NAME] = "nvidia.com/gpu"
    accounting: Annotated[
        str,
        Field(
            doc=(
                "Observed (default): what was seen, with a bound on what was missed. Exact: a finalizer holds "
                "finished pods until they are counted."
            ),
            enum=("Observed", "Exact"),
        ),
    ] = "Observed"


class EndedPod(ApiStruct, frozen=True, kw_only=True):
    """A pod that has ended, and what it used."""

    pod: Annotated[str, Field(doc="Its name; with its namespace where the budget covers several.", max_length=320)]
    gpu_hours: Annotated[int | str, Field(doc="GPU-hours that it used.", max_length=32)]
    ended_at: Annotated[datetime | None, Field(doc="When it ended.", format="date-time")] = None


class GPUWorkloadBudgetStatus(ApiStruct, frozen=True, kw_only=True):
    """What was used, and what was done about it."""

    consumed_gpu_hours: Annotated[int | str | None, Field(doc="GPU-hours used in the window.", max_length=32)] = None
    remaining_gpu_hours: Annotated[int | str | None, Field(doc="GPU-hours left, never below zero.", max_length=32)] = (
        None
    )
    quota_gpu_hours: Annotated[
        int | str | None, Field(doc="The quota with the hours of quota.extra that count now.", max_length=32)
    ] = None
    as_of: Annotated[datetime | None, Field(doc="The moment for which the hours are given.", format="date-time")] = None
    gpus_in_use: Annotated[
        int | str | None, Field(doc="GPUs that matching pods hold: use grows by them every hour.", max_length=32)
    ] = None
    consumed_usd: Annotated[str | None, Field(doc="Dollars used in the window.", max_length=24)] = None
    unpriced_gpu_hours: Annotated[
        int | str | None,
        Field(doc="GPU-hours in the window on Nodes without a price: they count as no money.", max_length=32),
    ] = None
    uncertainty_gpu_hours: Annotated[
        int | str | None,
        Field(doc="Upper bound on GPU-hours used while the operator was not running or not watching.", max_length=32),
    ] = None
    tracked_pods: Annotated[int, Field(doc="Pods the selector matches now.", minimum=0)] = 0
    exceeded_at: Annotated[
        datetime | None, Field(doc="When use reached the quota; the grace period runs from here.", format="date-time")
    ] = None
    exhausted_at: Annotated[
        datetime | None, Field(doc="When the quota will be used up at the current rate.", format="date-time")
    ] = None
    next_change_at: Annotated[
        datetime | None, Field(doc="When the quota result can next change.", format="date-time")
    ] = None
    last_enforcement_at: Annotated[
        datetime | None, Field(doc="When a pod was last evicted or paused.", format="date-time")
    ] = None
    paused_pods: Annotated[
        int, Field(doc="Pods that this budget paused: stopped with their Job, or annotated.", minimum=0)
    ] = 0
    gated_pods: Annotated[
        int, Field(doc="New pods that wait behind the scheduling gate tgp.io/budget for hours to come back.", minimum=0)
    ] = 0
    blocked_pods: Annotated[
        int,
        Field(
            doc="Pods that should be evicted or paused and cannot be now: a PodDisruptionBudget or a policy protects "
            "them.",
            minimum=0,
        ),
    ] = 0
    alerted: Annotated[
        tuple[Annotated[str, Field(max_length=8)], ...],
        Field(doc="Alerts that were raised and hold.", max_items=16, list_type="set"),
    ] = ()
    largest: Annotated[
        tuple[EndedPod, ...],
        Field(doc="The pods that used most in the window and have ended.", max_items=10, list_type="atomic"),
    ] = ()
    reset_at: Annotated[
        datetime | None, Field(doc="When the account was last reset (tgp budgets reset).", format="date-time")
    ] = None
    account: Annotated[
        str | None,
        Field(doc="All use that was counted, packed by the operator. Not meant to be read.", max_length=ACCOUNT_MAX),
    ] = None
    observed_generation: Annotated[int, Field(doc="The generation of the spec last acted on.", minimum=0)] = 0
    conditions: Conditions = ()


class GPUWorkloadBudget(ApiStruct, frozen=True, kw_only=True):
    """GPU-hours a set of pods may use in a rolling window, and what happens beyond."""

    object_rules = (cel.NAME_FITS,)
    api_version: str = "tgp.io/v1"
    kind: str = "GPUWorkloadBudget"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[GPUWorkloadBudgetSpec, Field(doc="Which pods count and how much they may use.")]
    status: Annotated[GPUWorkloadBudgetStatus, Field(doc="What was used.")] = GPUWorkloadBudgetStatus()


# ---- the legacy kind, budget.zxuhan.dev/v1alpha1: the same field names, fewer of them


class LegacyQuota(ApiStruct, frozen=True, kw_only=True):
    """How much may be used, in how many hours."""

    gpu_hours: Annotated[int | str, GPU_HOURS]
    window_hours: Annotated[int, WINDOW_HOURS]


class LegacyEnforcement(ApiStruct, frozen=True, kw_only=True):
    """What happens beyond the quota."""

    action: Annotated[str, ACTION]
    grace_period_seconds: Annotated[int, GRACE_SECONDS] = 30


class LegacyBudgetSpec(ApiStruct, frozen=True, kw_only=True):
    """Which pods count, how much they may use, and what happens beyond that."""

    selector: Annotated[LabelSelector, SELECTOR]
    quota: Annotated[LegacyQuota, Field(doc="How much may be used, in how many hours.")]
    enforcement: Annotated[LegacyEnforcement, Field(doc="What happens beyond the quota.")]
    gpu_resource_name: Annotated[str, RESOURCE_NAME] = "nvidia.com/gpu"


class LegacyBudgetStatus(ApiStruct, frozen=True, kw_only=True):
    """Mirrored from the tgp.io budget of the same name."""

    consumed_gpu_hours: Annotated[int | str | None, Field(doc="GPU-hours used in the window.", max_length=32)] = None
    remaining_gpu_hours: Annotated[int | str | None, Field(doc="GPU-hours left, never below zero.", max_length=32)] = (
        None
    )
    tracked_pods: Annotated[int, Field(doc="Pods the selector matches now.", minimum=0)] = 0
    last_enforcement_at: Annotated[
        datetime | None, Field(doc="When a pod was last evicted or paused.", format="date-time")
    ] = None
    observed_generation: Annotated[int, Field(doc="The generation of the spec last acted on.", minimum=0)] = 0
    conditions: Conditions = ()


class LegacyBudget(ApiStruct, frozen=True, kw_only=True):
    """The legacy budget. A tgp.io GPUWorkloadBudget of the same name does the work; this one shows its result."""

    object_rules = (cel.NAME_FITS,)
    api_version: str = "budget.zxuhan.dev/v1alpha1"
    kind: str = "GPUWorkloadBudget"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[LegacyBudgetSpec, Field(doc="Which pods count and how much they may use.")]
    status: Annotated[LegacyBudgetStatus, Field(doc="What was used.")] = LegacyBudgetStatus()
