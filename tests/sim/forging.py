"""A hostile tenant: every right in the own namespace, the status subresource among them, and a good memory.

Makes specs and statuses that try to have the operator read Secrets, call addresses, and order, change or terminate what
belongs to others. The same forgeries are written to the simulated API server and to a real one.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Any

from tgp.api.values import rfc3339
from tgp.core.model.token import plain_uid

NONSENSE = ("", "nonsense", "../../etc", "a" * 63, "vultr-000000000000", "(implicit)")
MOMENTS = ("2001-01-01T00:00:00Z", "2126-01-01T00:00:00Z")
LAST = "9999-12-31T23:59:59Z"  # an hour later is no moment
PHASES = ("Pending", "Provisioning", "Booting", "Ready", "Terminating", "Finished", "Failed")
ORDER, SETTLE, END = AIMS = ("order", "settle", "end")
CONDITIONS = ("Launched", "Registered", "Initialized", "Ready", "Terminating", "Drained", "Ended")


@dataclass(frozen=True)
class Knowledge:
    """What the tenant knows. All of it can be read or guessed; none of it is the tenant's."""

    uid: str  # of the own request, as it stands in tokens
    cluster: str
    endpoint: str  # an address of the tenant's own, which waits for a key
    tokens: tuple[str, ...]  # of others' machines
    instances: tuple[str, ...]  # ids of machines: others' requests', other clusters', orphans'
    names: tuple[str, ...]  # what machines are called that no operator ordered
    accounts: tuple[str, ...]  # ids in the operator's table
    secrets: tuple[str, ...]  # Secret/key in the operator's namespace
    nodes: tuple[str, ...]
    classes: tuple[str, ...]
    epochs: tuple[str, ...]
    skus: tuple[tuple[str, str, str], ...]  # (provider, sku, place) that no class allows


def forged_status(luck: Random, knows: Knowledge) -> dict[str, Any]:
    """A merge patch for `.status`: in every third all is as the operator writes it but what is not the tenant's."""
    if knows.accounts and luck.random() < 0.33:
        return aimed_status(luck, knows, luck.choice(AIMS))
    attempts = [_attempt(luck, knows, number) for number in range(1, luck.choice((2, 2, 2, 3)))]
    status: dict[str, Any] = {"attempts": attempts}
    for name, values in (
        ("phase", PHASES),
        ("nodeClass", (*knows.classes, "(implicit)")),
        ("nodeName", knows.nodes),
        ("instanceId", knows.instances),
        ("readyAt", (*MOMENTS, None)),
        ("meshHostname", knows.nodes),
        ("meshAddress", ("100.64.0.1",)),
        ("privateIp", ("169.254.169.254",)),
    ):
        if luck.random() < 0.4:
            status[name] = luck.choice(values)
    if luck.random() < 0.5:
        status["conditions"] = [_condition(luck, name) for name in luck.sample(CONDITIONS, luck.randint(1, 4))]
    return status


def aimed_status(luck: Random, knows: Knowledge, aim: str) -> dict[str, Any]:
    """At an order that was not reserved, or at the end of another's machine."""
    account = luck.choice(knows.accounts)
    provider = account.partition("-")[0]
    sold = [each for each in knows.skus if each[0] == provider] or list(knows.skus)
    _, sku, place = luck.choice(sold)
    offer = {"provider": provider, "instanceType": sku, "sku": sku, "place": place, "region": place}
    offer |= {"gpuType": "H100", "gpuCount": 8, "hourlyPrice": "0.01", "bootMode": "native"}
    number = luck.randint(8, 999)
    row = {"number": number, "token": f"tgp-{knows.cluster}-{knows.uid}-{number}", "offer": offer, "account": account}
    status: dict[str, Any] = {"attempts": [row], "nodeClass": "rented", "phase": "Provisioning", "conditions": []}
    if aim == ORDER:
        row |= {"epoch": luck.choice(knows.epochs), "reservedAt": MOMENTS[0]}
        return status
    row |= {"epoch": "absent/0", "instanceId": luck.choice(knows.instances)}
    if aim == END:
        row |= {"outcome": "Launched", "launchedAt": MOMENTS[0]}
        told = {"status": "True", "reason": "Deleted", "message": "forged", "lastTransitionTime": MOMENTS[0]}
        status |= {"phase": "Terminating", "conditions": [{"type": "Terminating", **told}]}
    return status


def idle_status(knows: Knowledge, node: str, since: str) -> dict[str, Any]:
    """Of a pool's machine that has become this Node, and that no pod has used since then: its pool would end it."""
    account = knows.accounts[0] if knows.accounts else "simulated-000000000000"
    provider = account.partition("-")[0]
    offer = {"provider": provider, "instanceType": node, "gpuType": "RTX4090", "gpuCount": 1, "hourlyPrice": "0.01"}
    row = {"number": 1, "token": f"tgp-{knows.cluster}-{knows.uid}-1", "offer": offer, "account": account}
    row |= {"epoch": "absent/0", "reservedAt": since, "launchedAt": since, "outcome": "Launched", "instanceId": "i-1"}
    told = {"status": "True", "reason": "Forged", "message": "forged", "lastTransitionTime": since}
    held = [{"type": name, **told} for name in ("Launched", "Registered", "Initialized", "Ready")]
    moments = {"readyAt": since, "idleSince": since}
    return {"attempts": [row], "nodeClass": "rented", "nodeName": node, "phase": "Ready", "conditions": held, **moments}


def lost_status(kind: str, cluster: str, uid: str, account: str, now: datetime) -> dict[str, Any]:
    """Of a machine that never was, at $40 an hour, that counts against the class for a hundred years.

    `kind`: "lost", "running", or "unknown": in an account that is in no table.
    """
    provider, moment = account.partition("-")[0], rfc3339(now)
    offer = {"provider": provider, "instanceType": "x", "hourlyPrice": "40.00", "gpuType": "H100", "gpuCount": 8}
    row = {"number": 9, "token": f"tgp-{cluster}-{plain_uid(uid)}-9", "account": account, "offer": offer}
    row |= {"epoch": "absent/0", "reservedAt": moment, "launchedAt": moment, "hourlyPrice": "40.00"}
    status: dict[str, Any] = {"attempts": [row], "nodeClass": "rented", "phase": "Pending", "readyAt": moment}
    if kind == "lost":
        row |= {"endedAt": moment, "outcome": "Lost", "countsUntil": MOMENTS[1]}
        return status
    row |= {"outcome": "Launched", "instanceId": "i-1"}
    row |= {"account": f"{provider}-000000000000"} if kind == "unknown" else {}
    return status | {"phase": "Ready"}


def forged_spec(luck: Random, knows: Knowledge) -> dict[str, Any]:
    """A spec to create a request with; the API server may refuse it."""
    secret, _, key = luck.choice(knows.secrets).partition("/")
    ref = {"name": secret, "key": key, "namespace": "tgp-system"}
    odd: dict[str, Any] = {
        "nodeClassRef": {"name": luck.choice((*knows.classes, "(implicit)"))},
        "labels": {luck.choice(("tgp.io/nodepool", "tgp.io/request-uid", "a.tgp.io/x")): "theirs"},
        "provider": luck.choice(("vultr", "simulated", knows.endpoint)),
        "offer": {"provider": "simulated", "instanceType": luck.choice(knows.skus)[1], "endpoint": knows.endpoint},
        "talosConfig": {"image": knows.endpoint, "machineConfigTemplate": "{{.Secret}}", "secretRef": ref},
        "credentialsRef": ref,
        "settings": {"endpoint": knows.endpoint},
        "taints": [{"key": "tgp.io/untrusted", "effect": "NoExecute", "value": knows.endpoint[:63]}],
    }
    chosen = luck.sample(sorted(odd), luck.randint(1, 3))
    return {"gpuType": "RTX4090", "idleTimeout": "Never"} | {name: odd[name] for name in chosen}


def _attempt(luck: Random, knows: Knowledge, number: int) -> dict[str, Any]:
    _, sku, place = luck.choice(knows.skus)
    own = f"tgp-{knows.cluster}-{knows.uid}-{luck.choice((1, 2, 3, 7))}"
    secret, _, key = luck.choice(knows.secrets).partition("/")
    provider = luck.choice(("vultr", "vultr", "simulated", "lambdalabs", "webhook"))
    offer = {
        "provider": provider,
        "instanceType": sku,
        "sku": sku,
        "place": place,
        "gpuType": "H100",
        "gpuCount": 8,
        "hourlyPrice": luck.choice(("0.01", "99999.00", "free")),
        "bootMode": luck.choice(("native", "power", "takeover")),
        "untrusted": luck.random() < 0.5,
    }
    settings = {"endpoint": knows.endpoint, "project": "theirs"}
    machine = {"name": knows.nodes[0], "gpuCount": 1, "scaleUpEndpoint": knows.endpoint}
    machine |= {"scaleDownEndpoint": knows.endpoint, "statusEndpoint": knows.endpoint}
    line = {"id": "", "provider": provider, "secret": secret, "key": key, "settings": settings}
    row = {
        "number": number,
        "token": luck.choice((own, own, own, own, *knows.tokens, *knows.names, "nonsense")),
        "offer": offer,
        "account": luck.choice((*knows.accounts, *knows.accounts, *NONSENSE, json.dumps(line))),
        # What stood there once, and was believed.
        "credentials": f"{secret}/{key}",
        "endpoint": knows.endpoint,
        "settings": json.dumps(settings if provider != "webhook" else {"machines": [machine]}),
        "epoch": luck.choice((*knows.epochs, "absent/0")),
        "reservedAt": MOMENTS[0],
        "instanceId": luck.choice((*knows.instances, "")),
        "hourlyPrice": "0.01",
    }
    if luck.random() < 0.6:
        row |= {"outcome": luck.choice(("Launched", "Launched", "Lost")), "launchedAt": luck.choice(MOMENTS)}
    if luck.random() < 0.2:
        row |= {"endedAt": luck.choice((*MOMENTS, LAST)), "countsUntil": luck.choice((*MOMENTS, LAST))}
    return {name: value for name, value in row.items() if luck.random() < 0.95 or name in ("number", "token")}


def _condition(luck: Random, name: str) -> dict[str, Any]:
    return {
        "type": name,
        "status": luck.choice(("True", "False")),
        "reason": luck.choice(("Deleted", "Expired", "Idle", "Forged")),
        "message": "forged",
        "lastTransitionTime": MOMENTS[0],
    }
