"""Every metric of the operator, in one place: names are a contract with dashboards and alerts."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

LAG_BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0)  # a tenth of the renew deadline is one second
TURN_BUCKETS = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0)


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
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
        self.watch_trouble = Counter(
            "tgp_watch_troubles_total", "Views that could not be refreshed", ["kind"], registry=of
        )
        self.unreadable = Counter(
            "tgp_unreadable_objects_total", "Objects this version cannot decode", ["kind"], registry=of
        )
        self.events_dropped = Gauge("tgp_events_dropped", "Events dropped: too many, or not writable", registry=of)

    def page(self) -> bytes:
        return generate_latest(self.registry)
