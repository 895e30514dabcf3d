"""Every metric of the operator, in one place: names are a contract with dashboards and alerts."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.registry import Collector

LAG_BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0)  # a tenth of the renew deadline is one second
CALL_BUCKETS = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
TURN_BUCKETS = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0)
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
        self.build = Gauge("tgp_build_info", "1, labelled with the running version", ["version"], registry=of)
        self.leader = Gauge("tgp_leader", "1 while this replica holds the Lease", registry=of)
        self.lease_trouble = Counter(
            "tgp_lease_troubles_total", "Times the Lease was out of reach for longer than it lasts", registry=of
        )
        self.lease_unreachable = Gauge(
            "tgp_lease_unreachable_seconds", "For how long every try for the Lease has failed", registry=of
        )
        self.conditions = Counter(
            "tgp_condition_changes_total", "Conditions that turned", ["kind", "type", "status", "reason"], registry=of
        )
        self.failed_turns = Counter(
            "tgp_turn_failures_total", "Turns that raised", ["controller", "error"], registry=of
        )
        self.turns = Histogram(
            "tgp_turn_seconds", "Length of a turn", ["controller", "outcome"], buckets=TURN_BUCKETS, registry=of
        )
        self.queue_depth = Gauge("tgp_queue_depth", "Keys waiting", ["controller"], registry=of)
        self.failing_keys = Gauge("tgp_queue_failing_keys", "Keys whose last turn failed", ["controller"], registry=of)
        self.loop_lag = Histogram(
            "tgp_loop_lag_seconds", "How late the event loop runs what is due", buckets=LAG_BUCKETS, registry=of
        )
        self.history_rewound = Counter(
            "tgp_history_rewound_total",
            "Times the API server's history went back: its etcd was restored",
            registry=of,
        )
        self.watch_trouble = Counter(
            "tgp_watch_troubles_total", "Views that could not be refreshed", ["kind"], registry=of
        )
        self.unreadable = Counter(
            "tgp_unreadable_objects_total", "Objects this version cannot decode", ["kind"], registry=of
        )
        self.events_dropped = Gauge("tgp_events_dropped", "Events dropped: too many, or not writable", registry=of)

        self.keys_refused = Counter(
            "tgp_keys_refused_total", "Times a provider refused a key", ["provider"], registry=of
        )
        self.provider_trouble = Counter(
            "tgp_provider_troubles_total",
            "Times a provider did not tell its offers for minutes",
            ["provider", "error"],
            registry=of,
        )

        self.cloud_calls = Histogram(
            "tgp_cloud_call_seconds",
            "Calls to providers",
            ["provider", "verb", "outcome"],
            buckets=CALL_BUCKETS,
            registry=of,
        )
        self.cloud_waits = Histogram(
            "tgp_cloud_wait_seconds",
            "Waiting for a turn, to keep a provider's rate limit",
            ["provider", "verb", "refused"],
            buckets=CALL_BUCKETS,
            registry=of,
        )
        self.redactions = Gauge("tgp_redactions", "Secrets caught on their way out: each is a defect", registry=of)
        self._of_machines(of)

    def _of_machines(self, of: CollectorRegistry) -> None:
        """Labels name providers, classes and pools, never a request."""
        self.orders = Counter("tgp_orders_total", "Attempts written down before buying", ["provider"], registry=of)
        self.launches = Counter(
            "tgp_launches_total", "Attempts to rent, by how they ended", ["provider", "outcome"], registry=of
        )
        self.phases = Histogram(
            "tgp_phase_seconds",
            "From the order until a machine is launched, registered, initialized, ready",
            ["provider", "phase"],
            buckets=PHASE_BUCKETS,
            registry=of,
        )
        self.joins = Counter(
            "tgp_joins_total",
            "Certificate requests under tokens of ours, by how they were answered",
            ["answer"],
            registry=of,
        )
        self.endings = Counter(
            "tgp_endings_total", "Machines that began to be given back", ["provider", "reason"], registry=of
        )
        self.returned = Counter("tgp_returned_total", "Machines shown to be gone", ["provider", "reason"], registry=of)
        self.returned_dollars = Counter(
            "tgp_returned_dollars_total", "What machines cost that are gone", ["class", "pool", "provider"], registry=of
        )
        self.lost = Counter("tgp_lost_total", "Machines that went without being asked", ["provider"], registry=of)
        self.limit_holds = Counter(
            "tgp_limit_holds_total", "Times a hard limit kept a request from buying", ["class"], registry=of
        )
        self.protection_holds = Counter(
            "tgp_protection_holds_total", "Drains that wait for somebody not to be disturbed", registry=of
        )
        self.termination_troubles = Counter(
            "tgp_termination_troubles_total", "Machines that did not end when asked to", ["provider"], registry=of
        )
        self.orphans_found = Counter(
            "tgp_orphans_found_total", "Machines with our mark that no request owns", ["provider"], registry=of
        )
        self.orphans_returned = Counter(
            "tgp_orphans_returned_total", "Such machines shown to be gone again", ["provider"], registry=of
        )
        self.orphans_terminated = Counter(
            "tgp_orphans_terminated_total",
            "Such machines terminated one a minute, because there were too many at once and the evidence is complete",
            ["provider"],
            registry=of,
        )
        self.readopted = Counter(
            "tgp_machines_readopted_total",
            "Machines put on record again after their request's status was lost",
            ["provider"],
            registry=of,
        )
        self.sweeps_halted = Counter(
            "tgp_sweeps_halted_total",
            "Sweeps that stopped: too many orphans at once",
            ["provider"],
            registry=of,
        )

    def show(self, collector: Collector) -> None:
        """Ask this one too; a later one of its kind takes its place (an operator that began anew)."""
        if (earlier := self._shown.get(type(collector))) is not None:
            self.registry.unregister(earlier)
        self._shown[type(collector)] = collector
        self.registry.register(collector)

    def page(self) -> bytes:
        return generate_latest(self.registry)
