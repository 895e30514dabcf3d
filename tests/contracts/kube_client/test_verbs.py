"""One method, one request: what is sent, what is never sent again, and what comes of each answer."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.contracts.kube_client.scripted import ScriptedHttp, a_status, in_virtual_time, json_reply
from tgp.adapters.kube.client import READ_TRIES, KubeCluster
from tgp.api.resource import EVENT, GPU_NODE_CLASS, GPU_REQUEST, LEASE, POD
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.token_bucket import TokenRate
from tgp.ports.cluster import Blocked, ClusterBusy, Conflict, NotFound, Refused, WriteUnknown
from tgp.ports.http import NeverLeft, NoAnswer, Reply
from tgp.ports.leadership import NotLeading
from tgp.sim.entropy import SeededEntropy

TRAIN = ObjectKey("ml", "train-7")
STORED = {"kind": "GPURequest", "metadata": {"resourceVersion": "12", "uid": "u-1", "generation": 3}}
OK = json_reply(200, STORED)


def a_cluster(http: ScriptedHttp, **options: Any) -> KubeCluster:
    return KubeCluster(http, SeededEntropy(1, "test"), **options)


async def create(cluster: KubeCluster) -> Any:
    return await cluster.create(GPU_REQUEST, {"metadata": {"namespace": "ml", "name": "train-7"}, "spec": {}})


async def patch(cluster: KubeCluster) -> Any:
    return await cluster.patch(GPU_REQUEST, TRAIN, {"metadata": {"labels": {"a": "b"}}}, resource_version="11", uid="u")


async def apply(cluster: KubeCluster) -> Any:
    return await cluster.apply(GPU_REQUEST, {"metadata": {"namespace": "ml", "name": "train-7"}}, force=True)


async def write_status(cluster: KubeCluster) -> Any:
    return await cluster.write_status(GPU_REQUEST, TRAIN, uid="u-1", seen={"a": 1}, status={"a": 2})


async def delete(cluster: KubeCluster) -> Any:
    return await cluster.delete(GPU_REQUEST, TRAIN, uid="u-1", resource_version="11")


async def evict(cluster: KubeCluster) -> Any:
    return await cluster.evict(TRAIN, uid="u-1", grace=timedelta(seconds=30))


async def approve(cluster: KubeCluster) -> Any:
    return await cluster.approve(
        "node-csr-a", uid="u-1", resource_version="11", approved=True, reason="TokenOfThisNode", message="for Node a"
    )


CHANGES = (create, patch, apply, write_status, delete, evict, approve)
Verb = Callable[[KubeCluster], Awaitable[Any]]
every_change = pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)


@pytest.mark.parametrize(
    ("change", "request_line", "body"),
    [
        (
            create,
            ("POST", "/apis/tgp.io/v1/namespaces/ml/gpurequests", "fieldManager=tgp-operator", "application/json"),
            {
                "apiVersion": "tgp.io/v1",
                "kind": "GPURequest",
                "metadata": {"namespace": "ml", "name": "train-7"},
                "spec": {},
            },
        ),
        (
            patch,
            (
                "PATCH",
                "/apis/tgp.io/v1/namespaces/ml/gpurequests/train-7",
                "fieldManager=tgp-operator",
                "application/merge-patch+json",
            ),
            {"metadata": {"labels": {"a": "b"}, "resourceVersion": "11", "uid": "u"}},
        ),
        (
            apply,
            (
                "PATCH",
                "/apis/tgp.io/v1/namespaces/ml/gpurequests/train-7",
                "fieldManager=tgp-operator&force=true",
                "application/apply-patch+yaml",
            ),
            {"apiVersion": "tgp.io/v1", "kind": "GPURequest", "metadata": {"namespace": "ml", "name": "train-7"}},
        ),
        (
            write_status,
            (
                "PATCH",
                "/apis/tgp.io/v1/namespaces/ml/gpurequests/train-7/status",
                "fieldManager=tgp-operator",
                "application/merge-patch+json",
            ),
            {"status": {"a": 2}, "metadata": {"uid": "u-1"}},
        ),
        (
            delete,
            ("DELETE", "/apis/tgp.io/v1/namespaces/ml/gpurequests/train-7", "", "application/json"),
            {
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "propagationPolicy": "Background",
                "preconditions": {"uid": "u-1", "resourceVersion": "11"},
            },
        ),
        (
            evict,
            ("POST", "/api/v1/namespaces/ml/pods/train-7/eviction", "", "application/json"),
            {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"namespace": "ml", "name": "train-7"},
                "deleteOptions": {"preconditions": {"uid": "u-1"}, "gracePeriodSeconds": 30},
            },
        ),
        (
            approve,
            (
                "PATCH",
                "/apis/certificates.k8s.io/v1/certificatesigningrequests/node-csr-a/approval",
                "fieldManager=tgp-operator",
                "application/merge-patch+json",
            ),
            {
                "metadata": {"uid": "u-1", "resourceVersion": "11"},
                "status": {
                    "conditions": [
                        {"type": "Approved", "status": "True", "reason": "TokenOfThisNode", "message": "for Node a"}
                    ]
                },
            },
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_sent(change: Verb, request_line: tuple[str, ...], body: dict):
    http = ScriptedHttp(OK)
    in_virtual_time(change(a_cluster(http)))

    (call,) = http.calls
    query = "&".join(f"{name}={value}" for name, value in call.query)
    assert (call.method, call.path, query, call.header("Content-Type")) == request_line
    assert http.bodies == [body]


@every_change
@pytest.mark.parametrize(
    "answer",
    [
        NoAnswer("broke off"),
        Reply(500, b"oops"),
        Reply(502, b"<html>"),
        a_status(504, "Timeout"),
    ],
    ids=["no answer", "500", "html", "504"],
)
def test_a_change_that_may_have_happened_is_unknown_and_sent_once(change: Verb, answer: Any):
    http = ScriptedHttp(answer)

    with pytest.raises(WriteUnknown):
        in_virtual_time(change(a_cluster(http)))
    assert len(http.calls) == 1


@every_change
@pytest.mark.parametrize("answer", [NeverLeft("refused"), a_status(429, "TooManyRequests")], ids=["refused", "429"])
def test_a_change_that_did_not_happen_says_so_and_is_sent_once(change: Verb, answer: Any):
    http = ScriptedHttp(answer)

    with pytest.raises(ClusterBusy):
        in_virtual_time(change(a_cluster(http)))
    assert len(http.calls) == 1


@pytest.mark.parametrize("change", [create, patch, apply, write_status], ids=lambda change: change.__name__)
@pytest.mark.parametrize(
    "body",
    [b"", b"<html>welcome</html>", b"[]", b'{"kind":"Pod"}', b'{"metadata":{}}'],
    ids=["empty", "html", "list", "kind", "meta"],
)
def test_a_yes_that_cannot_be_read_is_unknown(change: Verb, body: bytes):
    with pytest.raises(WriteUnknown, match="answered 200, but"):
        in_virtual_time(change(a_cluster(ScriptedHttp(Reply(200, body)))))


@pytest.mark.parametrize("change", [delete, evict], ids=lambda change: change.__name__)
@pytest.mark.parametrize("body", [b"", b"<html>welcome</html>", b"[]"], ids=["empty", "html", "list"])
def test_an_end_that_a_proxy_says_yes_to_is_unknown(change: Verb, body: bytes):
    with pytest.raises(WriteUnknown, match="not with a Kubernetes object"):
        in_virtual_time(change(a_cluster(ScriptedHttp(Reply(200, body)))))


def test_what_was_written():
    written = in_virtual_time(create(a_cluster(ScriptedHttp(OK))))

    assert (written.resource_version, written.uid, written.generation, written.changed) == ("12", "u-1", 3, True)


def test_a_patch_that_changed_nothing_says_so():
    cluster = a_cluster(ScriptedHttp(json_reply(200, {"metadata": {"resourceVersion": "11", "uid": "u"}})))

    assert not in_virtual_time(patch(cluster)).changed


def test_a_status_that_did_not_change_sends_nothing():
    http = ScriptedHttp(OK)
    cluster = a_cluster(http)
    status = {"phase": "Ready", "conditions": [{"type": "Ready"}], "node": None}

    written = in_virtual_time(
        cluster.write_status(
            GPU_REQUEST, TRAIN, uid="u-1", seen={"phase": "Ready", "conditions": [{"type": "Ready"}]}, status=status
        )
    )

    assert http.calls == []
    assert not written.changed


def test_a_status_may_say_which_list_was_seen():
    http = ScriptedHttp(OK)
    in_virtual_time(
        a_cluster(http).write_status(
            GPU_REQUEST, TRAIN, uid="u-1", seen={"a": [1]}, status={"a": [1, 2]}, resource_version="11"
        )
    )

    assert http.bodies == [{"status": {"a": [1, 2]}, "metadata": {"uid": "u-1", "resourceVersion": "11"}}]


@pytest.mark.parametrize("gone", [delete, evict], ids=lambda change: change.__name__)
def test_gone_is_a_success(gone: Verb):
    in_virtual_time(gone(a_cluster(ScriptedHttp(a_status(404, "NotFound")))))


@pytest.mark.parametrize(
    "said",
    [
        'cannot be fulfilled on Pod "a": the UID in the precondition (u-1) does not match the UID in record (u-2)',
        "StorageError: invalid object, Code: 4, Precondition failed: UID in precondition: u-1, UID in object meta: u-2",
    ],
)
def test_evicting_a_pod_whose_name_was_taken_over_is_a_success(said: str):
    """A StatefulSet gives the name to the next pod: the one that was meant is gone."""
    in_virtual_time(evict(a_cluster(ScriptedHttp(a_status(409, "Conflict", said)))))


def test_any_other_conflict_of_an_eviction_is_one():
    with pytest.raises(Conflict):
        in_virtual_time(evict(a_cluster(ScriptedHttp(a_status(409, "Conflict", "the object has been modified")))))


def test_an_eviction_against_a_budget_is_blocked():
    reply = a_status(429, "TooManyRequests", causes=[{"reason": "DisruptionBudget"}])

    with pytest.raises(Blocked):
        in_virtual_time(evict(a_cluster(ScriptedHttp(reply))))


def test_the_pods_own_grace_is_left_alone():
    http = ScriptedHttp(OK)
    in_virtual_time(a_cluster(http).evict(TRAIN, uid="u-1"))

    assert "gracePeriodSeconds" not in http.bodies[0]["deleteOptions"]


@pytest.mark.parametrize(
    "answer", [NoAnswer("broke off"), NeverLeft("refused"), Reply(500), Reply(200, b"<html>"), a_status(429, "x")]
)
def test_a_read_is_tried_a_few_times(answer: Any):
    http = ScriptedHttp(answer)

    with pytest.raises(ClusterBusy):
        in_virtual_time(a_cluster(http).read(GPU_REQUEST, TRAIN))
    assert len(http.calls) == READ_TRIES


def test_a_read_that_succeeds_at_last_is_a_success():
    http = ScriptedHttp(NoAnswer("broke off"), Reply(503), OK)

    assert in_virtual_time(a_cluster(http).read(GPU_REQUEST, TRAIN)) == STORED


def test_a_read_waits_as_long_as_it_is_asked_to():
    async def deed() -> float:
        http = ScriptedHttp(json_reply(429, {"kind": "Status"}, ("Retry-After", "3")), OK)
        await a_cluster(http).read(GPU_REQUEST, TRAIN)
        return asyncio.get_running_loop().time()

    assert 3.0 <= in_virtual_time(deed()) <= 4.5


def test_a_read_that_is_asked_to_wait_long_says_so_instead():
    http = ScriptedHttp(json_reply(429, {"kind": "Status"}, ("Retry-After", "60")))

    with pytest.raises(ClusterBusy) as caught:
        in_virtual_time(a_cluster(http).read(GPU_REQUEST, TRAIN))
    assert caught.value.retry_after == timedelta(seconds=60)
    assert len(http.calls) == 1


@pytest.mark.parametrize(
    ("answer", "error"), [(a_status(404, "NotFound"), NotFound), (a_status(422, "Invalid"), Refused)]
)
def test_a_clear_no_is_not_asked_again(answer: Reply, error: type):
    http = ScriptedHttp(answer)

    with pytest.raises(error):
        in_virtual_time(a_cluster(http).read(GPU_REQUEST, TRAIN))
    assert len(http.calls) == 1


def test_a_read_asks_for_the_newest():
    """No resourceVersion: a quorum read, not the server's cache."""
    http = ScriptedHttp(OK)
    in_virtual_time(a_cluster(http).read(GPU_NODE_CLASS, ObjectKey("", "gpu")))

    assert http.calls[0].query == ()
    assert http.calls[0].path == "/apis/tgp.io/v1/gpunodeclasses/gpu"


class HeldFence:
    def __init__(self, deadline: float | None) -> None:
        self._deadline = deadline

    def deadline(self) -> float | None:
        return self._deadline

    def epoch(self) -> str:
        return "1"

    def check(self) -> None:
        pass


@every_change
def test_a_change_is_good_only_for_as_long_as_we_lead(change: Verb):
    http = ScriptedHttp(OK)
    in_virtual_time(change(a_cluster(http, fence=HeldFence(1234.5))))

    assert http.calls[0].not_after == 1234.5


@every_change
def test_a_replica_that_does_not_lead_changes_nothing(change: Verb):
    http = ScriptedHttp(OK)

    with pytest.raises(NotLeading):
        in_virtual_time(change(a_cluster(http, fence=HeldFence(None))))
    assert http.calls == []


def test_the_lease_and_events_need_no_leadership():
    http = ScriptedHttp(OK)
    cluster = a_cluster(http, fence=HeldFence(None))

    async def deed() -> None:
        await cluster.patch(LEASE, TRAIN, {"spec": {}})
        await cluster.create(EVENT, {"metadata": {"namespace": "ml", "name": "x"}})
        await cluster.read(POD, TRAIN)

    in_virtual_time(deed())
    assert [call.not_after for call in http.calls] == [None, None, None]


def test_requests_wait_for_their_turn():
    async def deed() -> float:
        cluster = a_cluster(ScriptedHttp(OK), pace=TokenRate(per_second=10, burst=5))
        for _ in range(7):
            await cluster.read(POD, TRAIN)
        return asyncio.get_running_loop().time()

    assert in_virtual_time(deed()) == pytest.approx(0.2)


def test_the_lease_does_not_wait_behind_others():
    async def deed() -> float:
        http = ScriptedHttp(OK)
        cluster = a_cluster(http, pace=TokenRate(per_second=1, burst=1))
        others = [asyncio.ensure_future(cluster.read(POD, TRAIN)) for _ in range(20)]
        await asyncio.sleep(0.01)
        await cluster.patch(LEASE, TRAIN, {"spec": {}})
        at = asyncio.get_running_loop().time()
        await asyncio.gather(*others)
        return at

    assert in_virtual_time(deed()) < 0.1
