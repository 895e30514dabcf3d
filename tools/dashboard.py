"""The Grafana dashboard of the chart, from a table of panels: what is paid, what is used, what is wrong."""

import json
from dataclasses import dataclass
from typing import Any

COLUMNS, HEIGHT = 24, 8  # of Grafana's grid; of a panel
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    query: str
    legend: str = ""
    unit: str = "short"


# Both replicas serve the gauges of requests and offers: `max` over them counts each machine once.
PER_CLASS = "sum by (class) (max by (class, pool, provider) (%s))"
PER_PROVIDER = "sum by (provider) (max by (class, pool, provider) (%s))"
PANELS = (
    Panel("Cost per hour", PER_PROVIDER % "tgp_hourly_dollars", "{{provider}}", "currencyUSD"),
    Panel("Machines", PER_PROVIDER % "tgp_machines", "{{provider}}"),
    Panel("Requests by phase", "max by (phase) (tgp_requests)", "{{phase}}"),
    Panel("Pods without a machine", "max by (reason) (tgp_unserved_pods)", "{{reason}}"),
    Panel("GPUs offered by Nodes", PER_CLASS % "tgp_gpus_allocatable", "{{class}}"),
    Panel("GPUs requested by pods", PER_CLASS % "tgp_gpus_requested", "{{class}}"),
    Panel(
        "Launches in an hour",
        "sum by (provider, outcome) (increase(tgp_launches_total[1h]))",
        "{{provider}} {{outcome}}",
    ),
    Panel("Terminations in an hour", "sum by (reason) (increase(tgp_terminations_total[1h]))", "{{reason}}"),
    Panel(
        "Lowest price of a GPU-hour", "max by (gpu, kind) (tgp_best_price_dollars)", "{{gpu}} {{kind}}", "currencyUSD"
    ),
    Panel("Age of offers", "max by (provider) (tgp_offers_age_seconds)", "{{provider}}", "s"),
    Panel(
        "GPU-hours used of each budget", "max by (namespace, name) (gwb_consumed_gpu_hours)", "{{namespace}}/{{name}}"
    ),
    Panel("Failing terminations", "max by (provider) (tgp_terminations_failing)", "{{provider}}"),
)


def dashboard() -> str:
    return (
        json.dumps(
            {
                "title": "tgp",
                "uid": "tgp-operator",
                "schemaVersion": 39,
                "timezone": "browser",
                "refresh": "1m",
                "time": {"from": "now-24h", "to": "now"},
                "templating": {"list": [{"name": "datasource", "type": "datasource", "query": "prometheus"}]},
                "panels": [_panel(number, panel) for number, panel in enumerate(PANELS)],
            },
            indent=2,
        )
        + "\n"
    )


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    width = COLUMNS // 2
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": SOURCE,
        "gridPos": {"x": number % 2 * width, "y": number // 2 * HEIGHT, "w": width, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [{"refId": "A", "datasource": SOURCE, "expr": panel.query, "legendFormat": panel.legend}],
    }
