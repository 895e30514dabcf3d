"""Everything errs while machines join and leave: no secret of theirs is seen anywhere; a leak would be."""

import logging
from base64 import b64decode

import pytest

from tests.sim.an_operator import NAMESPACE_NAME
from tests.sim.boot.a_tailnet import Joining, a_tailnet_class, joining
from tests.sim.lives.an_estate import a_hand
from tgp.adapters.kube.events import CORE_EVENT
from tgp.api.resource import CONFIG_MAP, SECRET
from tgp.ports.http import json_call
from tgp.sim.checkers.witness import Violation
from tgp.sim.clouds.mishaps import Mishap
from tgp.sim.estate import Ailment
from tgp.sim.mesh.mishaps import MeshMishap
from tgp.sim.world import KUBERNETES

ENDS_THE_TALK = {Mishap.KEY_REVOKED, Mishap.OTHER_ACCOUNT}
CHANCE = 0.08
MACHINES = 4


def storm(stage: Joining) -> None:
    stage.shop.mishaps.chances = {mishap: CHANCE for mishap in Mishap if mishap not in ENDS_THE_TALK}
    stage.tailscale.mishaps.chances = dict.fromkeys(MeshMishap, CHANCE)
    stage.estate.ailments.aim(Ailment.NEVER_MESHED, Ailment.WRONG_ADDRESS, Ailment.NEVER_REGISTERS)


def calm(stage: Joining) -> None:
    stage.shop.mishaps.calm()
    stage.tailscale.mishaps.calm()
    stage.estate.ailments.calm()


def test_no_secret_of_joining_is_seen_whatever_goes_wrong(caplog):
    """Watched at every step: logs at debug level, Events, statuses, ConfigMaps, names, tags, addresses."""
    caplog.set_level(logging.DEBUG)
    bounds = {"after_joining": 600.0, "after_the_end": 1800.0}
    with joining("storm over the tailnet", bounds=bounds, invariants=()) as stage:
        a_tailnet_class(stage, timeouts={"launch": "6m", "boot": "2m", "join": "3m", "initialize": "4m"})
        stage.operate()
        stage.world.run(seconds=60)
        storm(stage)
        for number in range(MACHINES):
            stage.wants(f"train-{number}", idleTimeout="20m")
        stage.world.run(minutes=90)
        calm(stage)
        for number in range(MACHINES):
            stage.drops(f"train-{number}")
        stage.until(lambda: all(stage.phase(f"train-{number}") == "gone" for number in range(MACHINES)))
        stage.until(stage.nothing_is_left, minutes=120)

        made = stage.tailnet.keys
        assert len(made) > MACHINES, "some machines did not join"
        assert sum(stage.tailscale.mishaps.seen.values()) > 20, "much went wrong"
        assert caplog.records
        assert any("train-0" in str(each) for each in stage.world.api.backstage.objects(CORE_EVENT))


@pytest.mark.parametrize("what", ["an auth key", "the cluster's secret", "a bootstrap token"])
@pytest.mark.parametrize("where", ["a log line", "a ConfigMap", "an address"])
def test_a_leak_would_be_noticed(what: str, where: str, caplog):
    caplog.set_level(logging.DEBUG)
    with joining("a leak") as stage:
        a_tailnet_class(stage)
        stage.operate()
        stage.world.run(seconds=60)
        stage.wants()
        stage.until(lambda: bool(stage.bootstrap_tokens()), minutes=10, step=1)
        stage.world.run(seconds=1)
        secret = secrets(stage)[what]
        hand = a_hand(stage.world)
        with pytest.raises(Violation, match="I21"):
            if where == "a log line":
                logging.getLogger("tgp.test").debug("careless: %s", secret)
                stage.world.run(seconds=30)
            elif where == "a ConfigMap":
                body = {"metadata": {"name": "careless", "namespace": NAMESPACE_NAME}, "data": {"x": secret}}
                call = json_call("POST", CONFIG_MAP.path(NAMESPACE_NAME), body)
                stage.world.until(hand.http(KUBERNETES).send(call))
            else:
                call = json_call("POST", f"{CONFIG_MAP.path(NAMESPACE_NAME)}/{secret}", {})
                stage.world.until(hand.http(KUBERNETES).send(call))


def secrets(stage: Joining) -> dict[str, str]:
    api = stage.world.api.backstage
    join = api.get(SECRET, NAMESPACE_NAME, "tgp-join") or {}
    token = api.get(SECRET, "kube-system", stage.bootstrap_tokens()[0]) or {}
    return {
        "an auth key": next(iter(stage.tailnet.keys.values())).secret,
        "the cluster's secret": b64decode(join["data"]["cluster-secret"]).decode(),
        "a bootstrap token": b64decode(token["data"]["token-secret"]).decode(),
    }
