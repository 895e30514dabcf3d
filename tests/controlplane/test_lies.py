"""A provider that says untrue things, on a real control plane: machines that serve are neither ended nor replaced.

One control plane, three requests that replace what they lose, and one lie after the other. The operator looks every six
seconds instead of every minute.
"""

import time
from collections.abc import Iterator

import pytest

from tests.controlplane.replica import SHORT
from tests.controlplane.replicas import Replicas
from tests.controlplane.simulators import Simulators
from tests.controlplane.test_lifecycle import (
    CLASS,
    a_class,
    a_request,
    admin,
    condition,
    ever_made,
    seen,
    status_of,
    uid_of,
)
from tgp.sim.clouds.cloud_faults import CloudVerb
from tgp.sim.clouds.fleet import Lie
from tgp.sim.clouds.machine import Phase
from tools.controlplane.plane import ControlPlane

__all__ = ("admin",)  # a fixture
NAMES = ("lied-to-1", "lied-to-2", "lied-to-3")
DENIED_LOOKS = 12  # past the listing lag several times over; two were once enough to replace everything
LOOK_S = 180.0  # the longest that is waited for a look
LIMITS = {"maxNodes": 4, "maxHourlyCost": "3.20"}


@pytest.fixture(scope="module")
def replicas(plane, admin, simulators, tmp_path_factory) -> Iterator[Replicas]:
    aboard = Replicas(plane, simulators.signposts(), tmp_path_factory.mktemp("replicas"), shortened=SHORT)
    aboard.start("first")
    yield aboard
    aboard.leave()


@pytest.fixture(scope="module")
def serving(plane, admin, simulators, replicas) -> Iterator[dict[str, str]]:
    """Name → Node, of requests that serve."""
    limited = a_class(simulators)
    limited["spec"]["limits"] = LIMITS
    admin.apply(limited, *(a_request(name, "simulated", restartPolicy="OnLoss") for name in NAMES))
    for name in NAMES:
        replicas.until(
            lambda name=name: status_of(plane, name).get("phase") == "Ready", lambda name=name: f"{name} is Ready"
        )
    yield {name: status_of(plane, name)["nodeName"] for name in NAMES}
    for name in NAMES:
        plane.admin.call("DELETE", f"/apis/tgp.io/v1/namespaces/default/gpurequests/{name}")
    replicas.until(lambda: not living(simulators), "every machine is gone", 240)


def living(simulators: Simulators) -> list[str]:
    return sorted(machine.id for _, machine in simulators.machines("simulated") if machine.alive)


def looks(simulators: Simulators) -> int:
    return simulators.look(lambda api: api.simulators["simulated"].calls[CloudVerb.LIST])


def say(simulators: Simulators, lie: Lie | None) -> None:
    simulators.look(lambda api: setattr(api.simulators["simulated"].fleet, "lie", lie))


def say_for_one_look(simulators: Simulators, replicas: Replicas, lie: Lie) -> None:
    before = looks(simulators)
    say(simulators, lie)
    replicas.until(lambda: looks(simulators) > before, "the provider is listed", LOOK_S)
    time.sleep(1)  # whatever is asked by id then is answered like the list
    say(simulators, None)
    replicas.until(lambda: looks(simulators) > before + 2, "the provider is listed again", LOOK_S)


def unharmed(plane: ControlPlane, simulators: Simulators, serving: dict[str, str], before: list[str]) -> None:
    assert living(simulators) == before
    for name, node in serving.items():
        assert status_of(plane, name)["phase"] == "Ready"
        assert len(ever_made(simulators, uid_of(plane, name))) == 1, "it was bought again"
        found = seen(plane, f"/api/v1/nodes/{node}")
        assert found is not None, "a Ready Node was deleted"
        assert not found["spec"].get("unschedulable")


def test_one_look_with_prices_times_a_hundred_ends_nothing(plane, simulators, replicas, serving):
    before = living(simulators)
    say_for_one_look(simulators, replicas, Lie(times=100))

    unharmed(plane, simulators, serving, before)
    prices = [float(status_of(plane, name)["hourlyPrice"]) for name in NAMES]
    assert max(prices) < 5, "a price that was said once stands on the object"


def test_one_look_that_calls_every_machine_stopped_ends_nothing(plane, simulators, replicas, serving):
    before = living(simulators)
    say_for_one_look(simulators, replicas, Lie(phase=Phase.STOPPED))

    unharmed(plane, simulators, serving, before)


def test_an_account_that_denies_everything_look_after_look_is_not_believed(plane, admin, simulators, replicas, serving):
    """200 [] and 404 by id, while the Nodes are Ready: nothing is replaced, and nothing more is bought there."""
    before = living(simulators)
    say(simulators, Lie(denies=True))
    try:
        replicas.until(
            lambda: all(
                condition(status_of(plane, name), "ProviderInconsistent").get("status") == "True" for name in NAMES
            ),
            lambda: f"they say so: {status_of(plane, NAMES[0])}",
            LOOK_S + 30,
        )
        admin.apply(a_request("newcomer", "simulated"))
        replicas.until(
            lambda: condition(status_of(plane, "newcomer"), "Launched").get("reason") == "ProviderInconsistent",
            lambda: f"the newcomer waits: {status_of(plane, 'newcomer')}",
        )
        before_more = looks(simulators)
        replicas.until(
            lambda: looks(simulators) >= before_more + DENIED_LOOKS, "it is denied for long", DENIED_LOOKS * LOOK_S
        )
        replicas.until(
            lambda: "tgp release provider/simulated" in condition(status_of(plane, "newcomer"), "Launched")["message"],
            lambda: f"the newcomer says what to do: {status_of(plane, 'newcomer')}",
        )
    finally:
        say(simulators, None)
    replicas.until(
        lambda: not condition(status_of(plane, NAMES[0]), "ProviderInconsistent"), "it is believed again", LOOK_S
    )

    unharmed(plane, simulators, serving, before)
    plane.admin.call("DELETE", "/apis/tgp.io/v1/namespaces/default/gpurequests/newcomer")
    assert status_of(plane, NAMES[0])["nodeClass"] == CLASS
