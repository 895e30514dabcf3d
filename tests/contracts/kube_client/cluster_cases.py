"""What the Cluster port promises, tried on an API server: the pretend one, and the real one."""

import asyncio
import re
from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.contracts.apiserver.cases.certificates import ASKED
from tgp.adapters.kube.client import KubeCluster
from tgp.adapters.kube.elector import LeaseElector
from tgp.adapters.kube.events import CORE_EVENT, EventRecorder
from tgp.api.resource import (
    CERTIFICATE_SIGNING_REQUEST,
    CONFIG_MAP,
    LEASE,
    NAMESPACE,
    POD,
    POD_DISRUPTION_BUDGET,
    Resource,
)
from tgp.core.model.facts import FactSubject
from tgp.core.model.object_key import ObjectKey
from tgp.ports.clock import Clock
from tgp.ports.cluster import AlreadyExists, Blocked, Conflict, NotFound, Refused
from tgp.ports.entropy import Entropy
from tgp.ports.http import Call, Http, Reply, json_call

NOT_INSTALLED = Resource("no-such-group.example", "v1", "nothings", "Nothing", namespaced=True)
NO_UID = "00000000-0000-0000-0000-000000000000"  # a uid that no object has


@dataclass
class Counting:
    """An Http that remembers what went through it."""

    inner: Http
    calls: list[Call] = field(default_factory=list)

    async def send(self, call: Call) -> Reply:
        self.calls.append(call)
        return await self.inner.send(call)

    def stream(self, call: Call, *, idle: Any) -> Any:
        return self.inner.stream(call, idle=idle)


@dataclass
class Ground:
    """A namespace of a case's own on some API server."""

    http: Counting
    clock: Clock
    entropy: Entropy
    home: str

    def __post_init__(self) -> None:
        self.cluster = KubeCluster(self.http, self.entropy)

    @property
    def changes(self) -> int:
        return sum(call.changes_things for call in self.http.calls)


Case = Callable[[Ground], Awaitable[None]]


async def a_ground(http: Http, clock: Clock, entropy: Entropy) -> Ground:
    ground = Ground(Counting(http), clock, entropy, f"case-{entropy.token(6).hex()}")
    await ground.cluster.create(NAMESPACE, {"metadata": {"name": ground.home}})
    return ground


async def a_note(ground: Ground, **data: str) -> tuple[ObjectKey, str, str]:
    """A ConfigMap: its key, uid and version."""
    key = ObjectKey(ground.home, "note")
    made = await ground.cluster.create(
        CONFIG_MAP, {"metadata": {"namespace": ground.home, "name": "note"}, "data": data}
    )
    return key, made.uid, made.resource_version


async def a_running_pod(ground: Ground, **labels: str) -> tuple[ObjectKey, str]:
    key = ObjectKey(ground.home, "train")
    metadata = {"namespace": ground.home, "name": "train", "labels": labels}
    written = await ground.cluster.create(
        POD, {"metadata": metadata, "spec": {"containers": [{"name": "main", "image": "any"}]}}
    )
    seen = (await ground.cluster.read(POD, key))["status"]
    ready = {**seen, "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await ground.cluster.write_status(POD, key, uid=written.uid, seen=seen, status=ready)
    return key, written.uid


async def a_budget(ground: Ground, name: str, *, allowed: int) -> None:
    key = ObjectKey(ground.home, name)
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "train"}}}
    metadata = {"namespace": ground.home, "name": name}
    written = await ground.cluster.create(POD_DISRUPTION_BUDGET, {"metadata": metadata, "spec": spec})
    seen = (await ground.cluster.read(POD_DISRUPTION_BUDGET, key)).get("status", {})
    status = {
        "observedGeneration": 1,
        "currentHealthy": 1,
        "desiredHealthy": 1,
        "expectedPods": 1,
        "disruptionsAllowed": allowed,
    }
    await ground.cluster.write_status(POD_DISRUPTION_BUDGET, key, uid=written.uid, seen=seen, status=status)


# Writing


async def what_is_written_is_read(ground: Ground) -> None:
    key, uid, version = await a_note(ground, a="1")

    changed = await ground.cluster.patch(CONFIG_MAP, key, {"data": {"b": "2"}}, resource_version=version, uid=uid)

    assert (await ground.cluster.read(CONFIG_MAP, key))["data"] == {"a": "1", "b": "2"}
    assert changed.changed
    assert changed.uid == uid
    assert int(changed.resource_version) > int(version)


async def an_end_is_an_end(ground: Ground) -> None:
    key, uid, version = await a_note(ground)

    await ground.cluster.delete(CONFIG_MAP, key, uid=uid, resource_version=version)

    with pytest.raises(NotFound):
        await ground.cluster.read(CONFIG_MAP, key)
    await ground.cluster.delete(CONFIG_MAP, key, uid=uid)


async def a_finalizer_holds_an_end(ground: Ground) -> None:
    key, uid, _ = await a_note(ground)
    await ground.cluster.patch(CONFIG_MAP, key, {"metadata": {"finalizers": ["tgp.io/held"]}})

    await ground.cluster.delete(CONFIG_MAP, key, uid=uid)

    assert (await ground.cluster.read(CONFIG_MAP, key))["metadata"]["deletionTimestamp"]
    await ground.cluster.patch(CONFIG_MAP, key, {"metadata": {"finalizers": None}}, uid=uid)
    with pytest.raises(NotFound):
        await ground.cluster.read(CONFIG_MAP, key)


async def a_patch_that_changes_nothing_says_so(ground: Ground) -> None:
    key, _, version = await a_note(ground, a="1")

    again = await ground.cluster.patch(CONFIG_MAP, key, {"data": {"a": "1"}}, resource_version=version)

    assert not again.changed


async def writes_are_ours_by_name(ground: Ground) -> None:
    key, _, _ = await a_note(ground, a="1")

    (entry,) = (await ground.cluster.read(CONFIG_MAP, key))["metadata"]["managedFields"]
    assert entry["manager"] == "tgp-operator"


async def what_exists_is_not_made_again(ground: Ground) -> None:
    await a_note(ground)

    with pytest.raises(AlreadyExists):
        await a_note(ground)


async def what_is_not_valid_is_refused_by_field(ground: Ground) -> None:
    with pytest.raises(Refused, match=r"metadata\.name"):
        await ground.cluster.create(CONFIG_MAP, {"metadata": {"namespace": ground.home, "name": "Not A Name"}})


async def another_version_is_a_conflict(ground: Ground) -> None:
    key, uid, _ = await a_note(ground)

    with pytest.raises(Conflict):
        await ground.cluster.patch(CONFIG_MAP, key, {"data": {"a": "1"}}, resource_version="1")
    with pytest.raises(Conflict):
        await ground.cluster.delete(CONFIG_MAP, key, uid=uid, resource_version="1")


async def another_object_of_the_name_is_a_conflict(ground: Ground) -> None:
    """A write meant for an object that was deleted and created again must not hit the new one."""
    key, _, _ = await a_note(ground)
    pod, _ = await a_running_pod(ground)

    with pytest.raises(Conflict):
        await ground.cluster.patch(CONFIG_MAP, key, {"data": {"a": "1"}}, uid=NO_UID)
    with pytest.raises(Conflict):
        await ground.cluster.delete(CONFIG_MAP, key, uid=NO_UID)
    with pytest.raises(Conflict):
        await ground.cluster.write_status(POD, pod, uid=NO_UID, seen={}, status={"message": "for another"})
    assert "data" not in await ground.cluster.read(CONFIG_MAP, key)


async def what_is_not_there_is_not_found(ground: Ground) -> None:
    with pytest.raises(NotFound):
        await ground.cluster.read(CONFIG_MAP, ObjectKey(ground.home, "other"))
    with pytest.raises(NotFound):
        await ground.cluster.patch(CONFIG_MAP, ObjectKey(ground.home, "other"), {"data": {"a": "1"}})
    with pytest.raises(NotFound):
        await ground.cluster.read(NOT_INSTALLED, ObjectKey(ground.home, "other"))


async def a_namespace_that_is_going_away_refuses_for_good(ground: Ground) -> None:
    """A 403, but not about our role: a condition for the administrator would be wrong."""
    await a_note(ground)
    await ground.cluster.delete(NAMESPACE, ObjectKey("", ground.home))

    with pytest.raises(Refused, match="terminated"):
        await ground.cluster.create(CONFIG_MAP, {"metadata": {"namespace": ground.home, "name": "late"}})


async def a_status_that_did_not_change_is_not_sent(ground: Ground) -> None:
    key, uid = await a_running_pod(ground)
    pod = await ground.cluster.read(POD, key)
    before = ground.changes

    written = await ground.cluster.write_status(POD, key, uid=uid, seen=pod["status"], status=dict(pod["status"]))

    assert not written.changed
    assert ground.changes == before
    assert await ground.cluster.read(POD, key) == pod


async def a_status_write_leaves_the_rest_alone(ground: Ground) -> None:
    key, uid = await a_running_pod(ground)
    before = await ground.cluster.read(POD, key)

    await ground.cluster.write_status(POD, key, uid=uid, seen={"message": "x"}, status={"message": "hello"})

    after = await ground.cluster.read(POD, key)
    assert after["status"] == {**before["status"], "message": "hello"}
    assert after["spec"] == before["spec"]


async def a_field_of_another_manager_is_a_conflict_unless_forced(ground: Ground) -> None:
    key = ObjectKey(ground.home, "note")
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "note"}, "data": {"a": "theirs"}}
    headers = (("Content-Type", "application/apply-patch+yaml"),)
    theirs = json_call("PATCH", CONFIG_MAP.path(*key), manifest, query=(("fieldManager", "stranger"),))
    reply = await ground.http.send(Call(theirs.method, theirs.path, theirs.query, headers, theirs.body))
    assert reply.ok
    ours = {"metadata": {"namespace": ground.home, "name": "note"}, "data": {"a": "ours"}}

    with pytest.raises(Conflict, match="stranger"):
        await ground.cluster.apply(CONFIG_MAP, ours)
    await ground.cluster.apply(CONFIG_MAP, ours, force=True)

    assert (await ground.cluster.read(CONFIG_MAP, key))["data"] == {"a": "ours"}


# Eviction


async def an_eviction_within_its_budget(ground: Ground) -> None:
    key, uid = await a_running_pod(ground, app="train")
    await a_budget(ground, "one", allowed=1)

    await ground.cluster.evict(key, uid=uid)

    with pytest.raises(NotFound):
        await ground.cluster.read(POD, key)


async def an_eviction_beyond_its_budget_is_blocked(ground: Ground) -> None:
    key, uid = await a_running_pod(ground, app="train")
    await a_budget(ground, "one", allowed=0)

    with pytest.raises(Blocked):
        await ground.cluster.evict(key, uid=uid)
    assert await ground.cluster.read(POD, key)


async def two_budgets_on_one_pod_are_refused(ground: Ground) -> None:
    key, uid = await a_running_pod(ground, app="train")
    await a_budget(ground, "one", allowed=1)
    await a_budget(ground, "two", allowed=1)

    with pytest.raises(Refused, match="more than one PodDisruptionBudget"):
        await ground.cluster.evict(key, uid=uid)


async def evicting_what_is_gone_is_a_success(ground: Ground) -> None:
    await ground.cluster.evict(ObjectKey(ground.home, "never-was"), uid=NO_UID)


async def evicting_a_pod_whose_name_another_bears_spares_the_other(ground: Ground) -> None:
    key, _ = await a_running_pod(ground)

    await ground.cluster.evict(key, uid=NO_UID)

    assert await ground.cluster.read(POD, key)


# Certificate requests


async def a_signing_request(ground: Ground) -> tuple[str, str, str]:
    """A kubelet's: its name, uid and version."""
    name = f"{ground.home}.csr"
    spec = {
        "request": b64encode(ASKED).decode(),
        "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
        "usages": ["digital signature", "client auth"],
    }
    made = await ground.cluster.create(CERTIFICATE_SIGNING_REQUEST, {"metadata": {"name": name}, "spec": spec})
    return name, made.uid, made.resource_version


async def a_certificate_request_is_approved_for_good(ground: Ground) -> None:
    name, uid, version = await a_signing_request(ground)

    written = await ground.cluster.approve(
        name, uid=uid, resource_version=version, approved=True, reason="TokenOfThisNode", message="for Node a"
    )

    (said,) = (await ground.cluster.read(CERTIFICATE_SIGNING_REQUEST, ObjectKey("", name)))["status"]["conditions"]
    assert (said["type"], said["status"]) == ("Approved", "True")
    assert (said["reason"], said["message"]) == ("TokenOfThisNode", "for Node a")
    assert written.changed
    with pytest.raises(Refused):
        await ground.cluster.approve(
            name, uid=uid, resource_version=written.resource_version, approved=False, reason="No", message="no"
        )


async def a_certificate_request_is_denied(ground: Ground) -> None:
    name, uid, version = await a_signing_request(ground)

    await ground.cluster.approve(
        name, uid=uid, resource_version=version, approved=False, reason="WrongName", message="not its node"
    )

    (said,) = (await ground.cluster.read(CERTIFICATE_SIGNING_REQUEST, ObjectKey("", name)))["status"]["conditions"]
    assert (said["type"], said["reason"]) == ("Denied", "WrongName")


async def a_verdict_about_something_else_than_was_seen_is_a_conflict(ground: Ground) -> None:
    name, uid, version = await a_signing_request(ground)
    verdict = {"approved": True, "reason": "TokenOfThisNode", "message": "for Node a"}

    with pytest.raises(Conflict):
        await ground.cluster.approve(name, uid=NO_UID, resource_version=version, **verdict)
    with pytest.raises(Conflict):
        await ground.cluster.approve(name, uid=uid, resource_version="1", **verdict)
    with pytest.raises(NotFound):
        await ground.cluster.approve(f"{name}.other", uid=uid, resource_version=version, **verdict)
    assert not (await ground.cluster.read(CERTIFICATE_SIGNING_REQUEST, ObjectKey("", name))).get("status")


async def a_server_says_of_which_release_it_is(ground: Ground) -> None:
    assert re.fullmatch(r"v1\.\d+\.\d+", await ground.cluster.version())


async def a_server_says_which_groups_it_has(ground: Ground) -> None:
    groups = await ground.cluster.groups()
    assert {"batch", "apps"} <= groups
    assert "kueue.x-k8s.io" not in groups


# Election and events


async def a_lease_is_won_renewed_and_given_back(ground: Ground) -> None:
    key = ObjectKey(ground.home, "leader")
    first = LeaseElector(ground.cluster, ground.clock, ground.entropy, key=key, identity="first")
    standing = asyncio.ensure_future(first.run())
    async with asyncio.timeout(10):
        await first.won()
    epoch = first.fence.epoch()
    won = await ground.cluster.read(LEASE, key)
    await asyncio.sleep(2.5)
    renewed = await ground.cluster.read(LEASE, key)
    await first.release()
    await standing
    second = LeaseElector(ground.cluster, ground.clock, ground.entropy, key=key, identity="second")
    taking = asyncio.ensure_future(second.run())
    async with asyncio.timeout(10):
        await second.won()
    taking.cancel()

    assert won["spec"]["holderIdentity"] == "first"
    assert won["spec"]["renewTime"] < renewed["spec"]["renewTime"]
    assert epoch == f"{won['metadata']['uid']}/0"
    assert second.fence.epoch() == f"{won['metadata']['uid']}/1"


async def events_are_counted_on_their_object(ground: Ground) -> None:
    key, uid, _ = await a_note(ground)
    events = EventRecorder(ground.cluster, ground.clock, "pod-1")
    running = asyncio.ensure_future(events.run())
    for subject in (FactSubject(CONFIG_MAP, key, uid), FactSubject(NAMESPACE, ObjectKey("", "kube-system"), NO_UID)):
        for _ in range(3):
            events.emit(subject, warning=True, reason="SoldOut", message="no a100 left at acme")
            async with asyncio.timeout(10):
                await events.flushed()
    running.cancel()

    assert (events.written, events.dropped) == (6, 0)
    created = next(call for call in ground.http.calls if call.path == CORE_EVENT.path(ground.home))
    name = next(call.path for call in ground.http.calls if call.path.startswith(f"{created.path}/")).rsplit("/", 1)[1]
    event = await ground.cluster.read(CORE_EVENT, ObjectKey(ground.home, name))
    assert (event["count"], event["reason"], event["involvedObject"]["name"]) == (3, "SoldOut", "note")


CASES: tuple[Case, ...] = (
    what_is_written_is_read,
    an_end_is_an_end,
    a_finalizer_holds_an_end,
    a_patch_that_changes_nothing_says_so,
    writes_are_ours_by_name,
    what_exists_is_not_made_again,
    what_is_not_valid_is_refused_by_field,
    another_version_is_a_conflict,
    another_object_of_the_name_is_a_conflict,
    what_is_not_there_is_not_found,
    a_namespace_that_is_going_away_refuses_for_good,
    a_status_that_did_not_change_is_not_sent,
    a_status_write_leaves_the_rest_alone,
    a_field_of_another_manager_is_a_conflict_unless_forced,
    an_eviction_within_its_budget,
    an_eviction_beyond_its_budget_is_blocked,
    two_budgets_on_one_pod_are_refused,
    evicting_what_is_gone_is_a_success,
    evicting_a_pod_whose_name_another_bears_spares_the_other,
    a_certificate_request_is_approved_for_good,
    a_certificate_request_is_denied,
    a_verdict_about_something_else_than_was_seen_is_a_conflict,
    a_server_says_of_which_release_it_is,
    a_server_says_which_groups_it_has,
    a_lease_is_won_renewed_and_given_back,
    events_are_counted_on_their_object,
)
