"""A provider that says untrue things, on a real control plane: machines that serve are neither ended nor replaced.

One control plane, three requests that replace what they lose, and one lie after the other. The operator looks every six
seconds instead of every minute.
"""

import time
from collections.abc import Iterator

import pytest

from tests.controlplane.crew import Crew
from tests.controlplane.replica import SHORT
from tests.controlplane.test_lives import (
    CLASS,
    a_class,
    a_request,
    admin,
    condition,
    ever_made,
    node_bootstrap,
    plane,
    seen,
    status_of,
    uid_of,
    village,
)
from tests.controlplane.village import Village
from tgp.sim.clouds.cloud_faults import CloudVerb
from tgp.sim.clouds.fleet import Lie
from tgp.sim.clouds.machine import Phase
from tools.controlplane.plane import ControlPlane

__all__ = ("admin", "node_bootstrap", "plane", "village")  # fixtures
NAMES = ("lied-to-1", "lied-to-2", "lied-to-3")
DENIED_LOOKS = 12  # past the listing lag several times over; two were once enough to replace everything
LOOK_S = 180.0  # the longest that is waited for a look
LIMITS = {"maxNodes": 4, "maxHourlyCost": "3.20"}


@pytest.fixture(scope="module")
def crew(plane, admin, village, tmp_path_factory) -> Iterator[Crew]:
    aboard = Crew(plane, village.signposts(), tmp_path_factory.mktemp("replicas"), shortened=SHORT)
    aboard.start("first")
    yield aboard
    aboard.leave()


@pytest.fixture(scope="module")
def serving(plane, admin, village, crew) -> Iterator[dict[str, str]]:
    """Name → Node, of requests that serve."""
    limited = a_class(village)
    limited["spec"]["limits"] = LIMITS
    admin.apply(limited, *(a_request(name, "simulated", restartPolicy="OnLoss") for name in NAMES))
    for name in NAMES:
        crew.until(
            lambda name=name: status_of(plane, name).get("phase") == "Ready", lambda name=name: f"{name} is Ready"
        )
    yield {name: status_of(plane, name)["nodeName"] for name in NAMES}
    for name in NAMES:
        plane.admin.call("DELETE", f"/apis/tgp.io/v1/namespaces/default/gpurequests/{name}")
    crew.until(lambda: not living(village), "every machine is gone", 240)


def living(village: Village) -> list[str]:
    return sorted(machine.id for _, machine in village.machines("simulated") if machine.alive)


def looks(village: Village) -> int:
    return village.look(lambda desk: desk.simulators["simulated"].calls[CloudVerb.LIST])


def say(village: Village, lie: Lie | None) -> None:
    village.look(lambda desk: setattr(desk.simulators["simulated"].fleet, "lie", lie))


def say_for_one_look(village: Village, crew: Crew, lie: Lie) -> None:
    before = looks(village)
    say(village, lie)
    crew.until(lambda: looks(village) > before, "the provider is listed", LOOK_S)
    time.sleep(1)  # whatever is asked by id then is answered like the list
    say(village, None)
    crew.until(lambda: looks(village) > before + 2, "the provider is listed again", LOOK_S)


def unharmed(plane: ControlPlane, village: Village, serving: dict[str, str], before: list[str]) -> None:
    assert living(village) == before
    for name, node in serving.items():
        assert status_of(plane, name)["phase"] == "Ready"
        assert len(ever_made(village, uid_of(plane, name))) == 1, "it was bought again"
        found = seen(plane, f"/api/v1/nodes/{node}")
        assert found is not None, "a Ready Node was deleted"
        assert not found["spec"].get("unschedulable")


def test_one_look_with_prices_times_a_hundred_ends_nothing(plane, village, crew, serving):
    before = living(village)
    say_for_one_look(village, crew, Lie(times=100))

    unharmed(plane, village, serving, before)
    prices = [float(status_of(plane, name)["hourlyPrice"]) for name in NAMES]
    assert max(prices) < 5, "a price that was said once stands on the object"


def test_one_look_that_calls_every_machine_stopped_ends_nothing(plane, village, crew, serving):
    before = living(village)
    say_for_one_look(village, crew, Lie(phase=Phase.STOPPED))

    unharmed(plane, village, serving, before)


def test_an_account_that_denies_everything_look_after_look_is_not_believed(plane, admin, village, crew, serving):
    """200 [] and 404 by id, while the Nodes are Ready: nothing is replaced, and nothing more is bought there."""
    before = living(village)
    say(village, Lie(denies=True))
    try:
        crew.until(
            lambda: all(
                condition(status_of(plane, name), "ProviderInconsistent").get("status") == "True" for name in NAMES
            ),
            lambda: f"they say so: {status_of(plane, NAMES[0])}",
            LOOK_S + 30,
        )
        admin.apply(a_request("newcomer", "simulated"))
        crew.until(
            lambda: condition(status_of(plane, "newcomer"), "Launched").get("reason") == "ProviderInconsistent",
            lambda: f"the newcomer waits: {status_of(plane, 'newcomer')}",
        )
        before_more = looks(village)
        crew.until(lambda: looks(village) >= before_more + DENIED_LOOKS, "it is denied for long", DENIED_LOOKS * LOOK_S)
    finally:
        say(village, None)
    crew.until(
        lambda: not condition(status_of(plane, NAMES[0]), "ProviderInconsistent"), "it is believed again", LOOK_S
    )

    unharmed(plane, village, serving, before)
    message = condition(status_of(plane, "newcomer"), "Launched")["message"]
    assert "tgp release provider/simulated" in message
    plane.admin.call("DELETE", "/apis/tgp.io/v1/namespaces/default/gpurequests/newcomer")
    assert status_of(plane, NAMES[0])["nodeClass"] == CLASS
