"""All metrics of the operator in one place. Dashboards and alerts rely on the names.

Reconciles, queues, API calls and the process have the names that controller-runtime, client-go and prometheus_client
use; the rest begins with `tgp_`.
"""

from math import nan

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.registry import Collector

LAG_BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0)  # a tenth of the renew deadline is one second
CALL_BUCKETS = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
RECONCILE_BUCKETS = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0)
PHASE_BUCKETS = (
    5.0,
    15.0,
    30.0,
    60.0,
    120.0,
    180.0,
    300.0,
    600.0,
    1200.0,
    1800.0,
    3600.0,
)  # the usual: 3 to 10 minutes


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._shown: dict[type[Collector], Collector] = {}
        of = self.registry
        ProcessCollector(registry=of)  # process_cpu_seconds_total, process_resident_memory_bytes …
        self.build = Gauge("tgp_build_info", "1, labelled with the running version", ["version"], registry=of)
        self.leader = Gauge("tgp_leader", "1 while this replica holds the Lease", registry=of)
        self.lease_errors = Counter(
            "tgp_lease_errors_total", "Times the Lease was unreachable for longer than its duration", registry=of
        )
        self.lease_unreachable = Gauge(
            "tgp_lease_unreachable_seconds", "How long every call for the Lease has failed", registry=of
        )
        self._of_access(of)
        self.conditions = Counter(
            "tgp_condition_changes_total",
            "Condition status changes",
            ["kind", "type", "status", "reason"],
            registry=of,
        )
        self._of_controllers(of)
        self.loop_lag = Histogram(
            "tgp_loop_lag_seconds",
            "Delay of the event loop: how late a due callback runs",
            buckets=LAG_BUCKETS,
            registry=of,
        )
        self.history_rewound = Counter(
            "tgp_history_rewound_total",
            "Times the API server's resource versions went back (etcd was restored)",
            registry=of,
        )
        self.watch_errors = Counter(
            "tgp_watch_errors_total", "Times a cached kind could not be refreshed", ["kind"], registry=of
        )
        self.unreadable = Counter(
            "tgp_unreadable_objects_total", "Objects this version cannot decode", ["kind"], registry=of
        )
        self.events_dropped = Gauge(
            "tgp_events_dropped", "Events dropped: too many at once, or not writable", registry=of
        )

        self.keys_refused = Counter(
            "tgp_keys_refused_total", "Times a provider refused an API key", ["provider"], registry=of
        )
        self.provider_errors = Counter(
            "tgp_provider_errors_total",
            "Times a provider's offers could not be listed for 5 minutes",
            ["provider", "error"],
            registry=of,
        )

        self.cloud_calls = Histogram(
            "tgp_cloud_call_seconds",
            "Duration of calls to providers",
            ["provider", "verb", "outcome"],
            buckets=CALL_BUCKETS,
            registry=of,
        )
        self.cloud_waits = Histogram(
            "tgp_cloud_wait_seconds",
            "Time a call waited for the provider's rate limit",
            ["provider", "verb", "refused"],
            buckets=CALL_BUCKETS,
            registry=of,
        )
        self.redactions = Gauge(
            "tgp_redactions", "Secrets removed from output by the last check: each one is a bug", registry=of
        )
        self._of_machines(of)
        self._of_pools(of)

    def _of_pools(self, of: CollectorRegistry) -> None:
        self.plans = Counter("tgp_plans_total", "Plans for all pools by outcome", ["outcome"], registry=of)
        self.plans_cut_short = Counter(
            "tgp_plans_cut_short_total",
            "Plans that timed out; a simpler plan was used",
            ["namespace", "pool"],
            registry=of,
        )
        self.plan_seconds = Histogram("tgp_plan_seconds", "Duration of a plan", buckets=RECONCILE_BUCKETS, registry=of)
        self.plan_gap = Gauge(
            "tgp_plan_gap_ratio", "How far the last plan's cost is above a proven bound, as a share", registry=of
        )
        self.plan_gap.set(nan)  # until a plan has a proven bound
        self.plan_columns = Gauge("tgp_plan_columns", "Patterns that the last plan chose from", registry=of)
        self.planned_machines = Counter("tgp_planned_machines_total", "Machines that plans ordered", registry=of)
        self.unserved = Gauge(
            "tgp_unserved_pods", "Pods that the last plan found no machine for, by reason", ["reason"], registry=of
        )
        self.replanned = Counter(
            "tgp_replanned_requests_total", "Requests of pools that could not buy what was planned", registry=of
        )
        self.moves = Counter(
            "tgp_moves_total",
            "Moves of machines, by result",
            ["reason", "outcome"],
            registry=of,
        )
        self.moved_pods = Counter(
            "tgp_moved_pods_total",
            "Pods that had to run elsewhere because their machine leaves its pool",
            ["reason"],
            registry=of,
        )
        self.disrupted_nodes = Gauge(
            "tgp_disrupted_nodes", "Nodes that count against disruption budgets", ["namespace", "pool"], registry=of
        )
        self.budget_left = Gauge(
            "tgp_disruption_budget_left",
            "Nodes that may be disrupted now, in addition to those that are, by reason",
            ["namespace", "pool", "reason"],
            registry=of,
        )
        self.unhealthy_nodes = Gauge(
            "tgp_unhealthy_nodes", "Nodes of pools that are unhealthy", ["namespace", "pool"], registry=of
        )
        self.repair_halted = Gauge(
            "tgp_repair_halted",
            "1 while too many nodes of a pool are unhealthy at once, so that no unhealthy node is replaced",
            ["namespace", "pool"],
            registry=of,
        )
        self.savings_promised = Counter(
            "tgp_savings_promised_dollars_total",
            "Dollars per hour that exchanges of machines were to save when they began",
            ["namespace", "pool"],
            registry=of,
        )
        self.exchanged = Counter(
            "tgp_exchanged_dollars_total",
            "Cost of terminated machines that were bought because they are cheaper (part=paid), and what the machines "
            "that they replaced would have cost (part=replaced)",
            ["namespace", "pool", "part"],
            registry=of,
        )
        self.nominations = Counter(
            "tgp_nominations_total", "Pods nominated to the Node that was bought for them", registry=of
        )
        self.disagreements = Gauge(
            "tgp_scheduler_disagreements",
            "Pods that the scheduler refuses on a Node that has room for them",
            registry=of,
        )

    def _of_access(self, of: CollectorRegistry) -> None:
        self.certificate_expiry = Gauge(
            "tgp_certificate_expiry_timestamp_seconds",
            "When the certificate that HTTPS is served with ends; 0: there is none",
            registry=of,
        )
        self.access_requests = Counter(
            "tgp_access_requests_total", "Requests by HTTPS, by the status of the answer", ["code"], registry=of
        )
        self.access_reviews = Counter(
            "tgp_access_reviews_total", "Reviews that the API server was asked for", ["kind"], registry=of
        )

    def _of_controllers(self, of: CollectorRegistry) -> None:
        self.reconcile_time = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "Duration of a reconcile",
            ["controller"],
            buckets=RECONCILE_BUCKETS,
            registry=of,
        )
        self.reconciles = Counter(
            "controller_runtime_reconcile_total", "Reconciles by result", ["controller", "result"], registry=of
        )
        self.reconcile_errors = Counter(
            "controller_runtime_reconcile_errors_total",
            "Reconciles that raised or timed out",
            ["controller"],
            registry=of,
        )
        self.reconcile_timeouts = Counter(
            "controller_runtime_reconcile_timeouts_total",
            "Reconciles cancelled after their timeout",
            ["controller"],
            registry=of,
        )
        self.exceptions = Counter(
            "tgp_reconcile_exceptions_total",
            "Reconciles that raised or timed out, by exception class",
            ["controller", "error"],
            registry=of,
        )
        self.queue_depth = Gauge("workqueue_depth", "Keys waiting in the queue", ["name"], registry=of)
        self.failing_keys = Gauge(
            "tgp_queue_failing_keys", "Keys whose last reconcile failed or was deferred", ["controller"], registry=of
        )
        self.api_calls = Counter(
            "rest_client_requests_total",
            "Calls to the API server by status code and method; code <error>: no answer",
            ["code", "method"],
            registry=of,
        )

    def _of_machines(self, of: CollectorRegistry) -> None:
        """Labels name providers, classes and pools, never a request."""
        self.orders = Counter(
            "tgp_orders_total", "Attempts recorded before the provider was called", ["provider"], registry=of
        )
        self.launches = Counter(
            "tgp_launches_total", "Launch attempts by outcome", ["provider", "outcome"], registry=of
        )
        self.phases = Histogram(
            "tgp_phase_seconds",
            "Time from the order until the machine is launched, registered, initialized, ready",
            ["provider", "phase"],
            buckets=PHASE_BUCKETS,
            registry=of,
        )
        self.joins = Counter(
            "tgp_joins_total",
            "Certificate requests made with a bootstrap token of tgp, by answer",
            ["answer"],
            registry=of,
        )
        self.terminations = Counter(
            "tgp_terminations_total", "Terminations started, by reason", ["provider", "reason"], registry=of
        )
        self.terminated = Counter(
            "tgp_terminated_total",
            "Terminated machines that the provider no longer lists",
            ["provider", "reason"],
            registry=of,
        )
        self.terminated_dollars = Counter(
            "tgp_terminated_dollars_total", "Cost of terminated machines", ["class", "pool", "provider"], registry=of
        )
        self.lost = Counter(
            "tgp_lost_total", "Machines that disappeared without a termination by tgp", ["provider"], registry=of
        )
        self.limit_reached = Counter(
            "tgp_limit_reached_total", "Times a hard limit stopped a purchase", ["class"], registry=of
        )
        self.drains_blocked = Counter(
            "tgp_drains_blocked_total", "Drains that wait for a pod marked do-not-disrupt", registry=of
        )
        self.termination_errors = Counter(
            "tgp_termination_errors_total", "Machines still listed after a termination", ["provider"], registry=of
        )
        self.orphans_found = Counter(
            "tgp_orphans_found_total", "Machines with a tgp token that no request owns", ["provider"], registry=of
        )
        self.orphans_gone = Counter(
            "tgp_orphans_gone_total", "Orphans that the provider no longer lists", ["provider"], registry=of
        )
        self.orphans_terminated = Counter(
            "tgp_orphans_terminated_total",
            "Orphans of a halted sweep, terminated one per minute after the evidence was complete",
            ["provider"],
            registry=of,
        )
        self.readopted = Counter(
            "tgp_machines_readopted_total",
            "Machines recorded again after the status of their request was lost",
            ["provider"],
            registry=of,
        )
        self.enforcement_actions = Counter(
            "gwb_enforcement_actions_total",
            "Pods acted on because their budget was used up",
            ["namespace", "name", "action", "outcome"],
            registry=of,
        )
        self.budget_alerts = Counter(
            "gwb_alerts_total", "Alerts of budgets, each once per rise", ["namespace", "name", "alert"], registry=of
        )
        self.sweeps_halted = Counter(
            "tgp_sweeps_halted_total",
            "Sweeps that stopped because of too many orphans at once",
            ["provider"],
            registry=of,
        )

    def show(self, collector: Collector) -> None:
        """Serve this collector too. It replaces an earlier one of its class (a restarted operator)."""
        if (earlier := self._shown.get(type(collector))) is not None:
            self.registry.unregister(earlier)
        self._shown[type(collector)] = collector
        self.registry.register(collector)

    def page(self) -> bytes:
        return generate_latest(self.registry)
