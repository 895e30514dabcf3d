"""A restored etcd: the shipped operator on a control plane whose history goes back while machines are rented.

The operator goes on leading through it, with all that it has seen. Nothing is bought again, no machine is forgotten.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.replica import SHORT
from tests.controlplane.replicas import Replicas
from tests.controlplane.test_lifecycle import (
    a_request,
    admin,
    ever_made,
    request_path,
    seen,
    status_of,
    uid_of,
)
from tgp.sim.clouds.cloud_faults import CloudVerb

__all__ = ("admin",)  # a fixture
LONG_LEASE = ("--lease-duration=180s", "--renew-deadline=150s", "--retry-period=1s")  # it leads on through the restore
ORPHANS_GONE_S = 300.0
MARGIN = 20  # revisions that the operator may have seen beyond the last one that we wrote


@pytest.fixture
def replicas(plane, admin, simulators, tmp_path: Path) -> Iterator[Replicas]:
    aboard = Replicas(plane, simulators.signposts(), tmp_path, LONG_LEASE, SHORT)
    aboard.start("first")
    yield aboard
    aboard.stop("first")  # it lets go of its long Lease, which the next one would wait for
    aboard.leave()


def test_a_restored_etcd_is_noticed_and_no_machine_is_bought_twice_or_forgotten(plane, admin, simulators, replicas):
    held = simulators.hold("simulated", CloudVerb.LAUNCH)
    try:
        admin.apply(a_request("before", "simulated"))
        held.wait(180)
        backup = plane.back_up_etcd()  # reserved, and the outcome is unknown
    finally:
        held.release()
    replicas.until(lambda: status_of(plane, "before").get("phase") == "Ready", "the request is Ready")
    admin.apply(a_request("since", "simulated"))
    replicas.until(lambda: bool(status_of(plane, "since").get("instanceId")), "one more is rented")
    uids = {name: uid_of(plane, name) for name in ("before", "since")}

    plane.restore_etcd(backup)

    replicas.until(lambda: "HistoryRewound" in replicas.said("first"), "the operator notices")
    replicas.until(lambda: bool(status_of(plane, "before").get("instanceId")), "its machine is on record again")
    assert seen(plane, request_path("since")) is None, "its request never was"
    replicas.until(
        lambda: not any(machine.alive for machine in ever_made(simulators, uids["since"])),
        "the machine without a request is terminated",
        within_s=ORPHANS_GONE_S,
    )
    plane.admin.call("DELETE", request_path("before"))
    replicas.until(lambda: seen(plane, request_path("before")) is None, "a deletion has its effect")
    assert [len(ever_made(simulators, uid)) for uid in uids.values()] == [1, 1], "each was bought once"
    assert not any(machine.alive for uid in uids.values() for machine in ever_made(simulators, uid))


def test_a_restored_etcd_that_others_carried_past_its_old_revision_is_noticed(plane, admin, simulators, replicas):
    """No list ever shows a lower revision: the operator is stopped until other writers have passed the one it saw."""
    held = simulators.hold("simulated", CloudVerb.LAUNCH)
    try:
        admin.apply(a_request("earlier", "simulated"))
        held.wait(180)
        backup = plane.back_up_etcd()
    finally:
        held.release()
    replicas.until(lambda: status_of(plane, "earlier").get("phase") == "Ready", "the request is Ready")
    admin.apply(a_request("later", "simulated"))
    replicas.until(lambda: bool(status_of(plane, "later").get("instanceId")), "one more is rented")
    uids = {name: uid_of(plane, name) for name in ("earlier", "later")}
    seen_revision = written(plane, 0)

    os.kill(replicas.pid("first"), signal.SIGSTOP)
    try:
        plane.restore_etcd(backup)
        assert written(plane, 1) < seen_revision, "history went back"
        number = 2
        while written(plane, number) <= seen_revision + MARGIN:
            number += 1
    finally:
        os.kill(replicas.pid("first"), signal.SIGCONT)

    replicas.until(
        lambda: not any(machine.alive for machine in ever_made(simulators, uids["later"])),
        "the machine without a request is terminated",
        within_s=ORPHANS_GONE_S,
    )
    plane.admin.call("DELETE", request_path("earlier"))
    replicas.until(lambda: seen(plane, request_path("earlier")) is None, "a deletion has its effect")
    assert [len(ever_made(simulators, uid)) for uid in uids.values()] == [1, 1], "each was bought once"
    assert not any(machine.alive for uid in uids.values() for machine in ever_made(simulators, uid))


def written(plane, number: int) -> int:
    """The revision after one more write by another client."""
    name, path = "carries-on", "/api/v1/namespaces/default/configmaps"
    body = {"metadata": {"name": name}, "data": {"number": str(number)}}
    found = seen(plane, f"{path}/{name}")
    answer = plane.admin.call("PATCH", f"{path}/{name}", body) if found else plane.admin.call("POST", path, body)
    return int(answer["metadata"]["resourceVersion"])
