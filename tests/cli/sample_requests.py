"""Requests at each stage of their lifecycle, as the API server would hold them; and services that hand them out."""

import io
import json
import urllib.request
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.console import Console, RenderableType

from tests.contracts.kubectl.mounted import Mounted
from tgp.api.crds import crds
from tgp.api.decoding import UnreadableObject, decode
from tgp.api.request import GPURequest
from tgp.api.values import rfc3339
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.token import plain_uid
from tgp.core.requests.node_names import node_name_for
from tgp.ports.cluster import NotFound
from tgp.services.request_answers import Look

START = datetime(2026, 11, 16, 14, 2, 10, tzinfo=UTC)
OFFER = {
    "provider": "vultr",
    "instanceType": "vcg-l40s",
    "region": "us-east",
    "gpuType": "L40S",
    "gpuCount": 1,
    "hourlyPrice": "1.20",
    "bootMode": "native",
}


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def condition(
    name: str, status: str = "True", reason: str = "Fine", message: str = "", at: float = 0
) -> dict[str, Any]:
    said = {"type": name, "status": status, "reason": reason, "message": message}
    return {**said, "lastTransitionTime": rfc3339(after(at)), "observedGeneration": 1}


def attempt(number: int = 1, **more: Any) -> dict[str, Any]:
    token = f"tgp-0123456789-{'a' * 32}-{number}"
    return {"number": number, "token": token, "offer": OFFER, "reservedAt": rfc3339(after(2)), **more}


def document(
    name: str = "train",
    *,
    conditions: tuple[dict[str, Any], ...] = (),
    meta: Mapping[str, Any] | None = None,
    **status: Any,
) -> dict[str, Any]:
    return {
        "apiVersion": "tgp.io/v1",
        "kind": "GPURequest",
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": "11111111-2222-3333-4444-555555555555",
            "creationTimestamp": rfc3339(START),
            **(meta or {}),
        },
        "spec": {"gpuType": "L40S", "maxHourlyPrice": "1.50", "nodeClassRef": {"name": "standard"}},
        "status": {"conditions": list(conditions), **status},
    }


def a_request(**more: Any) -> GPURequest:
    read = decode(GPURequest, document(**more))
    assert not isinstance(read, UnreadableObject), read.why
    return read


NEW = a_request()
WAITING = a_request(
    phase="Pending",
    conditions=(
        condition(
            "Launched",
            "False",
            "NoOfferFits",
            "none of 9 offers fits: 9 too expensive; 1x L40S at $1.67/h from vultr: 17 cents above maxHourlyPrice",
            at=1,
        ),
    ),
)
BOUGHT = attempt(outcome="Launched", launchedAt=rfc3339(after(10)), instanceId="i-7", hourlyPrice="1.20")
LAUNCHED = condition("Launched", at=10)
JOINING = a_request(
    phase="Joining",
    attempts=[BOUGHT],
    instanceId="i-7",
    hourlyPrice="1.20",
    nodeName="gpu-train",
    conditions=(
        LAUNCHED,
        condition("Registered", "False", "Booting", "no Node yet, at the latest at 14:27:20Z", at=10),
    ),
)
UP = (LAUNCHED, condition("Registered", at=130), condition("Initialized", at=160), condition("Ready", at=160))
ALIVE = {"attempts": [BOUGHT], "instanceId": "i-7", "hourlyPrice": "1.20", "nodeName": "gpu-train"}
READY = a_request(
    phase="Ready",
    readyAt=rfc3339(after(160)),
    terminationScheduledAt=rfc3339(after(4 * 3600)),
    conditions=UP,
    **ALIVE,
)
GOING = a_request(
    phase="Terminating",
    readyAt=rfc3339(after(160)),
    conditions=(
        *UP,
        condition("Terminating", reason="Idle", message="No pod has used the GPUs since 15:00:00Z", at=5400),
        condition("Drained", "False", "Draining", "waits for 2 pods until 16:32:10Z", at=5400),
    ),
    **ALIVE,
)
RETURNED = attempt(
    outcome="Terminated", launchedAt=rfc3339(after(10)), endedAt=rfc3339(after(5500)), spent="1.83", instanceId="i-7"
)
FINISHED = a_request(
    phase="Finished",
    attempts=[RETURNED],
    spent="1.83",
    readyAt=rfc3339(after(160)),
    conditions=(condition("Ended", reason="Idle", message="No pod has used the GPUs since 15:00:00Z", at=5500),),
)
FAILED = a_request(
    phase="Failed",
    attempts=[attempt(n, outcome="Refused", endedAt=rfc3339(after(n)), message=f"no {n}") for n in (1, 2)],
    conditions=(condition("Ended", reason="TooManyFailures", message="5 launches failed. Last error: no 2", at=60),),
)


def drawn(renderable: RenderableType, width: int = 100) -> str:
    out = io.StringIO()
    Console(file=out, width=width, color_system=None, highlight=False).print(renderable)
    return out.getvalue()


class FakeServices:
    """Hands out looks that were written down before; none of them is waited for."""

    def __init__(self, *looks: Look, stays: bool = False) -> None:
        self.looks = looks
        self.asked: list[ObjectKey] = []
        self._stays = stays

    @asynccontextmanager
    async def requests(self, kubeconfig: str, context: str) -> AsyncIterator["FakeServices"]:
        del kubeconfig, context
        yield self

    async def follow(self, key: ObjectKey) -> AsyncGenerator[Look, None]:
        self.asked.append(key)
        if not self.looks:
            raise NotFound(f"there is no request {key}")
        for look in self.looks:
            yield look
        if self._stays:
            raise KeyboardInterrupt


# -- an API server to write them to ----------------------------------------------------------------------------------


def send(url: str, method: str, body: Mapping[str, Any], kind: str = "application/json") -> None:
    request = urllib.request.Request(  # noqa: S310 - on loopback
        url, json.dumps(body).encode(), {"Content-Type": kind}, method=method
    )
    urllib.request.urlopen(request).close()  # noqa: S310 - on loopback


def furnish(server: Mounted) -> str:
    """Our kinds and one request; gives the request's address."""
    for definition in crds():
        send(f"{server.url}/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "POST", definition)
    send(f"{server.url}/api/v1/namespaces", "POST", {"metadata": {"name": "ml"}})
    requests = f"{server.url}/apis/tgp.io/v1/namespaces/ml/gpurequests"
    whole = document()
    send(requests, "POST", {**whole, "metadata": {"name": "train", "namespace": "ml"}})
    return f"{requests}/train"


def become(address: str, status: str) -> None:
    """As the operator writes it: a token names the object it was bought for."""
    with urllib.request.urlopen(address) as answer:  # noqa: S310 - on loopback
        uid = plain_uid(json.load(answer)["metadata"]["uid"])
    status = status.replace("a" * 32, uid)
    send(f"{address}/status", "PATCH", {"status": json.loads(status)}, "application/merge-patch+json")


def reserved_name(request: Mapping[str, Any]) -> str:
    """Of the Node of a request's newest attempt."""
    meta = request["metadata"]
    return node_name_for(ObjectKey(meta["namespace"], meta["name"]), request["status"]["attempts"][-1]["token"])


def own_node(request: Mapping[str, Any]) -> dict[str, Any]:
    """As the operator marks it."""
    newest = request["status"]["attempts"][-1]
    labels = {"tgp.io/request": request["metadata"]["name"], "tgp.io/request-uid": request["metadata"]["uid"]}
    provider_id = f"tgp://{newest['offer']['provider']}/{newest['token']}"
    return {"metadata": {"name": reserved_name(request), "labels": labels}, "spec": {"providerID": provider_id}}
