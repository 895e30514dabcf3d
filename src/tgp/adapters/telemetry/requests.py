"""Requests and their machines as metrics, computed at each scrape: phases, money, GPUs, failing terminations.

Labels name classes, pools and providers, never a request: the number of series follows the configuration.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeAlias

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tgp.api.common import Condition
from tgp.api.request import PHASES, Attempt, GPURequest
from tgp.core.inventory.orphans import Stuck
from tgp.core.model.account_access import provider_of
from tgp.core.model.attempts import attempts_of, copied, open_attempt
from tgp.core.model.costs import class_of, hourly_of, pool_of, spent
from tgp.core.model.gpus import resource_name
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.pod import Pod
from tgp.core.model.presence import AccountProblem
from tgp.core.model.prices import MICRO

Labels: TypeAlias = tuple[str, ...]

SHARED = ["class", "pool", "provider"]
TROUBLES = frozenset(AccountProblem)
OTHER = "Other"  # a reason of a newer version
FAILING_AFTER = timedelta(minutes=10)  # from the end of the drain; being listed a while longer is ordinary


@dataclass(slots=True)
class Sums:
    """Dollars are micro-dollars until they are shown."""

    phases: Counter[Labels] = field(default_factory=Counter)
    machines: Counter[Labels] = field(default_factory=Counter)
    hourly: Counter[Labels] = field(default_factory=Counter)
    reserved: Counter[Labels] = field(default_factory=Counter)
    spent: Counter[Labels] = field(default_factory=Counter)
    bought: Counter[Labels] = field(default_factory=Counter)
    allocatable: Counter[Labels] = field(default_factory=Counter)
    requested: Counter[Labels] = field(default_factory=Counter)
    unreachable: Counter[Labels] = field(default_factory=Counter)
    failing: Counter[Labels] = field(default_factory=Counter)
    failing_hourly: Counter[Labels] = field(default_factory=Counter)


class RequestCollector(Collector):
    """`node` finds a Node by name, `pods_on` the pods placed on one, `stuck` the orphans whose termination fails."""

    def __init__(
        self,
        requests: Callable[[], Iterable[KubeObject[GPURequest]]],
        node: Callable[[str], Node | None],
        pods_on: Callable[[str], Iterable[Pod]],
        now: Callable[[], datetime],
        stuck: Callable[[], Iterable[Stuck]] = tuple,
    ) -> None:
        self._requests = requests
        self._node = node
        self._pods_on = pods_on
        self._now = now
        self._stuck = stuck

    def collect(self) -> Iterator[Metric]:
        sums = self._summed()
        counts = (
            ("tgp_requests", "Requests", ["phase"], sums.phases),
            ("tgp_machines", "Machines that are billed", SHARED, sums.machines),
            ("tgp_gpus_bought", "GPUs of the billed machines, as bought", SHARED, sums.bought),
            ("tgp_gpus_allocatable", "GPUs that the Nodes of these machines offer", SHARED, sums.allocatable),
            ("tgp_gpus_requested", "GPUs that pods on these Nodes request", SHARED, sums.requested),
            ("tgp_terminations_failing", "Machines still listed after their termination", ["provider"], sums.failing),
        )
        money = (
            ("tgp_hourly_dollars", "Hourly cost of the billed machines", SHARED, sums.hourly),
            (
                "tgp_reserved_hourly_dollars",
                "Hourly cost of machines ordered and not confirmed",
                SHARED,
                sums.reserved,
            ),
            ("tgp_spent_dollars", "Spent so far by requests that still exist", SHARED, sums.spent),
            (
                "tgp_unreachable_hourly_dollars",
                "Hourly cost of machines whose provider cannot be asked",
                ["provider", "reason"],
                sums.unreachable,
            ),
            (
                "tgp_terminations_failing_hourly_dollars",
                "Hourly cost of machines still listed after their termination",
                ["provider"],
                sums.failing_hourly,
            ),
        )
        yield from (_family(*row, per_unit=1) for row in counts)
        yield from (_family(*row, per_unit=MICRO) for row in money)

    def _summed(self) -> Sums:
        sums, now = Sums(phases=Counter({(phase,): 0 for phase in PHASES})), self._now()
        for record in self._requests():
            sums.phases[(_phase(record),)] += 1
            if copied(record):  # the machines in its status belong to another object
                continue
            attempts = attempts_of(record)
            for attempt in attempts:
                sums.spent[_labels(record, attempt)] += spent((attempt,), now)
            if (held := open_attempt(attempts)) is not None:
                self._add_machine(sums, record, held, now)
        for one in self._stuck():
            provider = provider_of(one.access)
            sums.failing[(provider,)] += 1
            sums.failing_hourly[(provider,)] += one.instance.hourly_microusd or 0
        return sums

    def _add_machine(self, sums: Sums, record: KubeObject[GPURequest], attempt: Attempt, now: datetime) -> None:
        labels, hourly = _labels(record, attempt), hourly_of(attempt)
        provider = labels[-1]
        if attempt.launched_at is None:
            sums.reserved[labels] += hourly
        else:
            sums.machines[labels] += 1
            sums.hourly[labels] += hourly
            self._add_gpus(sums, record, attempt)
        # Also for an unconfirmed order: it may be billed.
        reachable = _condition(record, "ProviderReachable")
        if reachable is not None and reachable.status == "False":
            sums.unreachable[provider, reachable.reason if reachable.reason in TROUBLES else OTHER] += hourly
        since = _asked_to_end(record)
        if since is not None and now - since > FAILING_AFTER:
            sums.failing[(provider,)] += 1
            sums.failing_hourly[(provider,)] += hourly

    def _add_gpus(self, sums: Sums, record: KubeObject[GPURequest], attempt: Attempt) -> None:
        labels, offer = _labels(record, attempt), attempt.offer
        sums.bought[labels] += (offer.gpu_count or 0) if offer is not None else 0
        name = record.value.status.node_name if record.value is not None else None
        node = self._node(name) if name else None
        if node is None:
            return
        resource = resource_name((offer.gpu_type or "") if offer is not None else "")
        sums.allocatable[labels] += node.allocatable.of(resource)
        pods = (pod for pod in self._pods_on(node.name) if not pod.finished)
        sums.requested[labels] += sum(pod.requests.of(resource) for pod in pods)


def _family(name: str, help_: str, labels: list[str], sums: Counter[Labels], *, per_unit: int) -> Metric:
    family = GaugeMetricFamily(name, help_, labels=labels)
    for values, amount in sorted(sums.items()):
        family.add_metric(values, amount / per_unit)
    return family


def _labels(record: KubeObject[GPURequest], attempt: Attempt) -> Labels:
    return class_of(record), pool_of(record), attempt.offer.provider if attempt.offer is not None else ""


def _phase(record: KubeObject[GPURequest]) -> str:
    said = record.value.status.phase if record.value is not None else record.status.get("phase")
    return said if said in PHASES else PHASES[0]


def _asked_to_end(record: KubeObject[GPURequest]) -> datetime | None:
    """Since when the machine waits for the provider alone; None: not terminating, or still draining."""
    ending, drained = _condition(record, "Terminating"), _condition(record, "Drained")
    last = ending if drained is None else drained  # a machine that never joined has nothing to drain
    both = ending is not None and ending.status == "True" and last is not None and last.status == "True"
    return last.last_transition_time if both and last is not None else None


def _condition(record: KubeObject[GPURequest], name: str) -> Condition | None:
    """None: not set, or the object cannot be read by this version."""
    conditions = record.value.status.conditions if record.value is not None else ()
    return next((each for each in conditions if each.type == name), None)
