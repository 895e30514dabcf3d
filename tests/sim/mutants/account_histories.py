"""Histories about accounts: who may name one, which of them is remembered, and when two keys belong to the same."""

from tests.sim.an_operator import NAMESPACE_NAME, a_class, operator_main
from tests.sim.lifecycle.a_world import SimEnv, sim_env
from tests.sim.lifecycle.hostile import Hostile
from tests.sim.lifecycle.reference import QUICK
from tgp.api.resource import GPU_NODE_CLASS, GPU_REQUEST, SECRET
from tgp.core.model.token import plain_uid
from tgp.sim.clouds.lambdalabs import SSH_KEY_NAME

FORGERIES = 60
LAMBDA = {"name": "lambdalabs", "settings": {"sshKeyName": SSH_KEY_NAME}}
WITH_LAMBDA = {"providers": [LAMBDA], "bootPolicy": "Any"}
A10 = {"gpuType": "A10", "idleTimeout": "Never", "maxLifetime": "Never"}


def hostile_tenant(seed: str) -> None:
    """Sixty forged statuses, and some specs, by a user who has every right in their own namespace."""
    with sim_env(seed, "simulated", "vultr", kubelets=QUICK, invariants=()) as env:
        hostile = Hostile(env)
        hostile.forge(FORGERIES)
        hostile.judge()


def provider_taken_out(seed: str) -> None:
    """A provider leaves its class, a request is forced away, the operator is restarted: the machine is swept."""
    with sim_env(seed, "simulated", "vultr", kubelets=QUICK, invariants=()) as env:
        begin_with(env, "rented", providers=[{"name": "vultr"}, {"name": "simulated"}])
        env.wants(gpuType="L40S", provider="vultr", idleTimeout="Never")
        env.until(lambda: env.phase() == "Ready", minutes=30)
        api = env.world.api.local_api
        api.merge_patch(GPU_NODE_CLASS, "", "rented", {"spec": {"providers": [{"name": "simulated"}]}})
        env.world.processes["tgp-0"].crash(restart_after=60.0)
        found = env.request()
        assert found is not None
        env.recorder.forced[plain_uid(found["metadata"]["uid"])] = None
        env.drops()
        api.merge_patch(GPU_REQUEST, "default", "train", {"metadata": {"finalizers": None}})
        env.world.run(minutes=20)

        assert not env.living(), "a machine stayed at a provider that no class names any more"


def key_rotated(seed: str) -> None:
    """At a provider that names no account the key changes; of two machines one was terminated by hand meanwhile."""
    with sim_env(seed, "lambdalabs", kubelets=QUICK, invariants=()) as env:
        two_at_lambda(env)
        rotate(env, env.simulator.fleet.accounts.of(key(env)))
        env.until(lambda: env.phase("second") == "Failed", minutes=30)
        env.drops("first")
        env.until(lambda: env.request("first") is None, minutes=30)

        assert not env.living(), "a machine stayed under the new key"


def another_accounts_key(seed: str) -> None:
    """The same, but the new key is truly another account's: nothing follows from what that lists."""
    with sim_env(seed, "lambdalabs", kubelets=QUICK, invariants=()) as env:
        two_at_lambda(env)
        accounts = env.simulator.fleet.accounts
        mine = accounts.of(key(env))
        assert mine is not None
        rotate(env, accounts.other_than(mine.id))
        env.world.run(minutes=40)

        for name in ("first", "second"):
            assert env.phase(name) != "Failed", "a machine was given up that another account does not list"
            assert env.condition("ProviderReachable", name)[1] == "AccountChanged"


def begin_with(env: SimEnv, name: str, **spec: object) -> None:
    a_class(env.world, name, **spec)
    env.world.process("tgp-0", operator_main(shipped=True))
    env.world.run(minutes=2)


def two_at_lambda(env: SimEnv) -> None:
    begin_with(env, "rented", **WITH_LAMBDA)
    for name in ("first", "second"):
        env.wants(name, **A10)
    env.until(lambda: all(env.phase(name) == "Ready" for name in ("first", "second")), minutes=40)


def key(env: SimEnv) -> str:
    return env.simulator.key_at("")


def rotate(env: SimEnv, to: object) -> None:
    """While the operator is away: what it saw of the machines it has forgotten."""
    process = env.world.processes["tgp-0"]
    process.crash(restart_after=120.0)
    env.simulator.fleet.accounts.open(to, "the-new-key")  # type: ignore[arg-type]  # a tenant
    env.simulator.fleet.accounts.revoke(key(env))
    changed = {"stringData": {"LAMBDA_LABS_API_KEY": "the-new-key"}}
    env.world.api.local_api.merge_patch(SECRET, NAMESPACE_NAME, "tgp-operator-secret", changed)
    uid = plain_uid((env.request("second") or {})["metadata"]["uid"])
    fleet = env.simulator.fleet
    for machine in fleet.living():
        if uid in machine.name:
            fleet.end(machine)
    env.world.run(minutes=3)


ACCOUNTS = (hostile_tenant, provider_taken_out, key_rotated, another_accounts_key)
