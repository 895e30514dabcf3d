"""What the operator says and asks for: no secret in any of its voices, and no right it does not use."""

import base64
import json
import logging
from datetime import timedelta

from tests.sim.an_operator import NAMESPACE_NAME, a_class, a_pool, a_secret, create, furnish, ready, settle, writes
from tests.sim.joining.a_tailnet import a_tailnet_class, joining
from tests.sim.lifecycle.a_world import give_keys, sim_env
from tests.sim.test_access import a_token, ask
from tests.sim.test_access import begun as begin_https
from tests.sim.test_budget_admission import gated, used_up
from tests.sim.test_budget_admission import install as install_budget_policies
from tests.sim.test_budget_pauses import a_job, suspended
from tests.sim.test_budgets import a_budget, a_team_pod
from tests.sim.test_budgets import begin as begin_budgets
from tests.sim.test_leadership_status import Replica
from tests.sim.test_pools import two_machines
from tests.sim.test_seed_environment import begin as own_machines
from tgp.adapters.kube.client import APPLY_PATCH
from tgp.adapters.kube.events import CORE_EVENT
from tgp.api.resource import (
    GPU_NODE_CLASS,
    GPU_NODE_POOL,
    GPU_REQUEST,
    GPU_WORKLOAD_BUDGET,
    LEGACY_BUDGET,
    SECRET,
)
from tgp.app.settings import Settings
from tgp.ports.http import Call, HangUp
from tgp.services.shipped import operator_rights
from tgp.sim.world import KUBERNETES, World

APPROVE = ("approve", "certificates.k8s.io", "signers")
NO_RIGHT = ("get", "", "")  # what every authenticated user may
VALUE = "x7-never-to-be-seen-value"
BUDGET = {
    "selector": {"matchLabels": {"team": "a"}},
    "quota": {"gpuHours": 1, "windowHours": 1},
    "enforcement": {"action": "AlertOnly"},
}


def test_a_secrets_value_is_in_no_voice_of_the_operator(caplog):
    caplog.set_level(logging.DEBUG)
    with World("discreet") as world:
        furnish(world)
        a_class(world, "rented", providers=[{"name": "lambdalabs"}, {"name": "vultr"}])
        a_pool(world, "pool", "rented")
        a_secret(world, "tgp-operator-secret", LAMBDA_LABS_API_KEY=VALUE, OTHER=VALUE)
        replica = Replica(world, "one")
        settle(world)
        said = [str(vars(line)) for line in caplog.records]
        said += [json.dumps(event) for event in world.api.local_api.objects(CORE_EVENT)]
        said += [
            json.dumps(thing) for kind in (GPU_NODE_CLASS, GPU_NODE_POOL) for thing in world.api.local_api.objects(kind)
        ]
        said.append(replica.operator.metrics.page().decode())

        assert ready(world, GPU_NODE_CLASS, "rented") == "Valid"
        assert any("LAMBDA_LABS_API_KEY" in line or "VULTR_API_KEY" in line for line in said), "names are said"
        for form in (VALUE, base64.b64encode(VALUE.encode()).decode()):
            assert not [line for line in said if form in line]


def test_it_asks_for_every_right_it_was_given_and_for_no_other():
    """The shipped role and the calls of a busy life agree, both ways."""
    asked: set[tuple[str, str, str]] = set()  # verb, group, resource
    with sim_env("rights", "vultr") as env:
        world = env.world
        original = world.api.handle
        unanswered = [f"/{GPU_REQUEST.plural}/train/status"]

        async def overheard(call: Call):
            asked.add(_right(call))
            if call.method == "PATCH" and unanswered and call.path.endswith(unanswered[0]):
                unanswered.pop()
                raise HangUp  # the writer cannot know that nothing happened
            return await original(call)

        world.network.mount(KUBERNETES, overheard)
        a_class(world, "rented", providers=[{"name": "vultr"}])
        a_pool(world, "pool", "rented")
        replica = Replica(world, "one", Settings(keep_finished=timedelta(minutes=5)))
        create(world, LEGACY_BUDGET, "team-a", "default", spec=BUDGET)
        settle(world)
        world.api.local_api.merge_patch(LEGACY_BUDGET, "default", "team-a", {"spec": {"quota": {"gpuHours": 2}}})
        for _ in range(2):  # told before: counted, not repeated
            world.api.local_api.delete(SECRET, NAMESPACE_NAME, "tgp-operator-secret")
            settle(world)
            give_keys(world, env.simulators)
            settle(world)
        env.wants("train", gpuType="A100")
        env.wants("spare", gpuType="A100", idleTimeout="10m")
        env.until(lambda: env.phase("train") == env.phase("spare") == "Ready")
        env.works(run_for="10m")
        env.until(env.running_pods)
        for name in ("train", "spare"):
            if env.phase(name) == "Ready":
                env.drops(name)
        env.until(lambda: not env.living())
        env.wants("mute", gpuType="A100")
        env.until(lambda: env.phase("mute") == "Ready")
        env.node_bootstrap.fall_silent(env.request("mute")["status"]["nodeName"])
        env.until(lambda: env.phase("mute") in ("Failed", "gone"))
        env.wants("last", gpuType="A100", idleTimeout="5m")
        env.until(lambda: env.phase("last") == "gone")
        replica.operator.stop()
        world.run(minutes=1)

        assert replica.ended
        assert writes(world)
    asked |= (
        _asked_to_join()
        | _asked_to_nominate()
        | _asked_for_own_machines()
        | _asked_to_pause()
        | _asked_for_budgets()
        | _asked_about_readers()
    )
    lists = {("list", group, resource) for verb, group, resource in asked if verb == "watch"}  # where none can stream
    implied = {APPROVE for right in asked if right[2] == "certificatesigningrequests/approval"}  # asked by the server
    assert asked - {NO_RIGHT} | lists | implied == _granted()


def _overhear(world: World, asked: set[tuple[str, str, str]]) -> None:
    """An apply that creates its object takes two rights."""
    original = world.api.handle

    async def overheard(call: Call):
        verb, group, resource = _right(call)
        asked.add((verb, group, resource))
        if call.header("content-type") == APPLY_PATCH:
            asked.add(("create", group, resource))
        return await original(call)

    world.network.mount(KUBERNETES, overheard)


def _asked_to_join() -> set[tuple[str, str, str]]:
    """What it takes besides to let a machine in that boots Talos."""
    asked: set[tuple[str, str, str]] = set()
    with joining("rights to join") as env:
        _overhear(env.world, asked)
        a_tailnet_class(env)
        env.operate()
        env.world.run(seconds=60)
        env.wants()
        env.until(lambda: env.phase() == "Ready")
        env.drops()
        env.until(lambda: env.phase() == "gone")
    return asked


def _asked_to_nominate() -> set[tuple[str, str, str]]:
    """What it takes besides to keep a pod's room on the machine that was bought for it."""
    asked: set[tuple[str, str, str]] = set()
    with two_machines("rights to nominate", lambda env: _overhear(env.world, asked)):
        return asked


def _asked_for_own_machines() -> set[tuple[str, str, str]]:
    """What it takes besides to write class and pool of machines that the environment names."""
    asked: set[tuple[str, str, str]] = set()
    with sim_env("rights of own machines", "webhook") as env:
        _overhear(env.world, asked)
        own_machines(env, 0)
    return asked


def _asked_to_pause() -> set[tuple[str, str, str]]:
    """What it takes besides to pause a Job and a pod beyond a budget."""
    asked: set[tuple[str, str, str]] = set()
    with World("rights to pause") as world:
        begin_budgets(world)
        _overhear(world, asked)
        a_budget(world, hours="0.1", action="Pause", gracePeriodSeconds=0)
        a_team_pod(world, "bare")
        a_job(world, "train")
        world.run(minutes=10)
        assert suspended(world, "train")
    return asked


def _asked_for_budgets() -> set[tuple[str, str, str]]:
    """What it takes besides to look for the policies of budgets, and to lift a gate."""
    asked: set[tuple[str, str, str]] = set()
    with World("rights of budgets") as world:
        install_budget_policies(world)
        _overhear(world, asked)
        begin_budgets(world)
        a_budget(world, "denies", admission="Deny")
        used_up(world, "Gate")
        a_team_pod(world, "waits")
        world.api.local_api.delete(GPU_WORKLOAD_BUDGET, "default", "team-a")
        world.run(minutes=2)
        assert gated(world) == []
    return asked


def _asked_about_readers() -> set[tuple[str, str, str]]:
    """What it takes besides to let a scraper read metrics by HTTPS, with a certificate of the operator's own."""
    asked: set[tuple[str, str, str]] = set()
    with World("rights to ask about readers") as world:
        _overhear(world, asked)
        replica = begin_https(world)
        assert ask(world, replica, a_token(world)).status == 403
    return asked


def _right(call: Call) -> tuple[str, str, str]:
    if call.path == "/version":
        return NO_RIGHT
    parts = call.path.strip("/").split("/")
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    resource = rest[0] if len(rest) < 3 else f"{rest[0]}/{rest[2]}"
    match call.method:
        case "GET":
            verb = "watch" if call.parameter("watch") else "get" if len(rest) > 1 else "list"
        case "POST":
            verb = "create"
        case method:
            verb = {"PATCH": "patch", "PUT": "update", "DELETE": "delete"}[method]
    return verb, group, resource


def _granted() -> set[tuple[str, str, str]]:
    return {
        (verb, group, resource)
        for document in operator_rights()
        if document["metadata"]["name"] == "tgp-operator"  # and not what the kubelets of its machines may
        for rule in document.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
