"""Everything errs while machines join and leave: no secret of theirs is seen anywhere; a leak would be."""

import logging
from base64 import b64decode

import pytest

from tests.amounts import amount
from tests.sim.an_operator import NAMESPACE_NAME
from tests.sim.joining.a_tailnet import Joining, a_tailnet_class, joining
from tests.sim.lifecycle.a_world import a_hand
from tgp.adapters.kube.events import CORE_EVENT
from tgp.api.resource import CONFIG_MAP, SECRET
from tgp.ports.http import json_call
from tgp.sim.checkers.recorder import Violation
from tgp.sim.clouds.cloud_faults import CloudFault
from tgp.sim.mesh.mesh_faults import MeshFault
from tgp.sim.node_bootstrap import NodeFault
from tgp.sim.world import KUBERNETES

ENDS_THE_TALK = {CloudFault.KEY_REVOKED, CloudFault.OTHER_ACCOUNT}
CHANCE = 0.08
MACHINES = amount(2, 4)


def inject_faults(env: Joining) -> None:
    env.simulator.faults.chances = {
        cloud_fault: CHANCE for cloud_fault in CloudFault if cloud_fault not in ENDS_THE_TALK
    }
    env.tailscale.faults.chances = dict.fromkeys(MeshFault, CHANCE)
    env.node_bootstrap.node_faults.aim(NodeFault.NEVER_MESHED, NodeFault.WRONG_ADDRESS, NodeFault.NEVER_REGISTERS)


def calm(env: Joining) -> None:
    env.simulator.faults.calm()
    env.tailscale.faults.calm()
    env.node_bootstrap.node_faults.calm()


def test_no_secret_of_joining_is_seen_whatever_goes_wrong(caplog):
    """Watched at every step: logs at debug level, Events, statuses, ConfigMaps, names, tags, addresses."""
    caplog.set_level(logging.DEBUG)
    bounds = {"after_joining": 600.0, "after_the_end": 1800.0}
    with joining("storm over the tailnet", bounds=bounds, invariants=()) as env:
        a_tailnet_class(env, timeouts={"launch": "6m", "boot": "2m", "join": "3m", "initialize": "4m"})
        env.operate()
        env.world.run(seconds=60)
        inject_faults(env)
        for number in range(MACHINES):
            env.wants(f"train-{number}", idleTimeout="20m")
        env.world.run(minutes=amount(40, 90))
        calm(env)
        for number in range(MACHINES):
            env.drops(f"train-{number}")
        env.until(lambda: all(env.phase(f"train-{number}") == "gone" for number in range(MACHINES)))
        env.until(env.nothing_is_left, minutes=120)

        made = env.tailnet.keys
        assert len(made) > MACHINES, "some machines did not join"
        assert sum(env.tailscale.faults.seen.values()) > amount(8, 20), "much went wrong"
        assert caplog.records
        assert any("train-" in str(each) for each in env.world.api.local_api.objects(CORE_EVENT))


@pytest.mark.parametrize("what", ["an auth key", "the cluster's secret", "a bootstrap token"])
@pytest.mark.parametrize("where", ["a log line", "a ConfigMap", "an address"])
def test_a_leak_would_be_noticed(what: str, where: str, caplog):
    caplog.set_level(logging.DEBUG)
    with joining("a leak") as env:
        a_tailnet_class(env)
        env.operate()
        env.world.run(seconds=60)
        env.wants()
        env.until(lambda: bool(env.bootstrap_tokens()), minutes=10, step=1)
        env.world.run(seconds=1)
        secret = secrets(env)[what]
        hand = a_hand(env.world)
        with pytest.raises(Violation, match="I21"):
            if where == "a log line":
                logging.getLogger("tgp.test").debug("careless: %s", secret)
                env.world.run(seconds=30)
            elif where == "a ConfigMap":
                body = {"metadata": {"name": "careless", "namespace": NAMESPACE_NAME}, "data": {"x": secret}}
                call = json_call("POST", CONFIG_MAP.path(NAMESPACE_NAME), body)
                env.world.until(hand.http(KUBERNETES).send(call))
            else:
                call = json_call("POST", f"{CONFIG_MAP.path(NAMESPACE_NAME)}/{secret}", {})
                env.world.until(hand.http(KUBERNETES).send(call))


def secrets(env: Joining) -> dict[str, str]:
    api = env.world.api.local_api
    join = api.get(SECRET, NAMESPACE_NAME, "tgp-join") or {}
    token = api.get(SECRET, "kube-system", env.bootstrap_tokens()[0]) or {}
    return {
        "an auth key": next(iter(env.tailnet.keys.values())).secret,
        "the cluster's secret": b64decode(join["data"]["cluster-secret"]).decode(),
        "a bootstrap token": b64decode(token["data"]["token-secret"]).decode(),
    }
