"""Histories about accounts: who may name one, which of them is remembered, and when two keys belong to the same."""

from tests.sim.an_operator import NAMESPACE_NAME, a_class, operator_main
from tests.sim.lives.an_estate import Lives, lives
from tests.sim.lives.hostile import Hostile
from tests.sim.lives.reference import QUICK
from tgp.api.resource import GPU_NODE_CLASS, GPU_REQUEST, SECRET
from tgp.core.model.token import plain_uid
from tgp.sim.clouds.lambdalabs import SSH_KEY_NAME

FORGERIES = 60
LAMBDA = {"name": "lambdalabs", "settings": {"sshKeyName": SSH_KEY_NAME}}
WITH_LAMBDA = {"providers": [LAMBDA], "bootPolicy": "Any"}
A10 = {"gpuType": "A10", "idleTimeout": "Never", "maxLifetime": "Never"}


def hostile_tenant(seed: str) -> None:
    """Sixty forged statuses, and some specs, by somebody who has every right in the own namespace."""
    with lives(seed, "simulated", "vultr", kubelets=QUICK, invariants=()) as stage:
        hostile = Hostile(stage)
        hostile.forge(FORGERIES)
        hostile.judge()


def provider_taken_out(seed: str) -> None:
    """A provider leaves its class, a request is forced away, the operator is restarted: the machine is swept."""
    with lives(seed, "simulated", "vultr", kubelets=QUICK, invariants=()) as stage:
        begin_with(stage, "rented", providers=[{"name": "vultr"}, {"name": "simulated"}])
        stage.wants(gpuType="L40S", provider="vultr", idleTimeout="Never")
        stage.until(lambda: stage.phase() == "Ready", minutes=30)
        api = stage.world.api.backstage
        api.merge_patch(GPU_NODE_CLASS, "", "rented", {"spec": {"providers": [{"name": "simulated"}]}})
        stage.world.processes["tgp-0"].crash(restart_after=60.0)
        found = stage.request()
        assert found is not None
        stage.witness.forced[plain_uid(found["metadata"]["uid"])] = None
        stage.drops()
        api.merge_patch(GPU_REQUEST, "default", "train", {"metadata": {"finalizers": None}})
        stage.world.run(minutes=20)

        assert not stage.living(), "a machine stayed at a provider that no class names any more"


def key_rotated(seed: str) -> None:
    """At a provider that names no account the key changes; of two machines one was terminated by hand meanwhile."""
    with lives(seed, "lambdalabs", kubelets=QUICK, invariants=()) as stage:
        two_at_lambda(stage)
        rotate(stage, stage.shop.fleet.accounts.of(key(stage)))
        stage.until(lambda: stage.phase("second") == "Failed", minutes=30)
        stage.drops("first")
        stage.until(lambda: stage.request("first") is None, minutes=30)

        assert not stage.living(), "a machine stayed under the new key"


def another_accounts_key(seed: str) -> None:
    """The same, but the new key is truly another account's: nothing follows from what that lists."""
    with lives(seed, "lambdalabs", kubelets=QUICK, invariants=()) as stage:
        two_at_lambda(stage)
        accounts = stage.shop.fleet.accounts
        mine = accounts.of(key(stage))
        assert mine is not None
        rotate(stage, accounts.other_than(mine.id))
        stage.world.run(minutes=40)

        for name in ("first", "second"):
            assert stage.phase(name) != "Failed", "a machine was given up that another account does not list"
            assert stage.condition("ProviderReachable", name)[1] == "AccountChanged"


def begin_with(stage: Lives, name: str, **spec: object) -> None:
    a_class(stage.world, name, **spec)
    stage.world.process("tgp-0", operator_main())
    stage.world.run(minutes=2)


def two_at_lambda(stage: Lives) -> None:
    begin_with(stage, "rented", **WITH_LAMBDA)
    for name in ("first", "second"):
        stage.wants(name, **A10)
    stage.until(lambda: all(stage.phase(name) == "Ready" for name in ("first", "second")), minutes=40)


def key(stage: Lives) -> str:
    return stage.shop.key_at("")


def rotate(stage: Lives, to: object) -> None:
    """While the operator is away: what it saw of the machines it has forgotten."""
    process = stage.world.processes["tgp-0"]
    process.crash(restart_after=120.0)
    stage.shop.fleet.accounts.open(to, "the-new-key")  # type: ignore[arg-type]  # a tenant
    stage.shop.fleet.accounts.revoke(key(stage))
    changed = {"stringData": {"LAMBDA_LABS_API_KEY": "the-new-key"}}
    stage.world.api.backstage.merge_patch(SECRET, NAMESPACE_NAME, "tgp-operator-secret", changed)
    uid = plain_uid((stage.request("second") or {})["metadata"]["uid"])
    fleet = stage.shop.fleet
    for machine in fleet.living():
        if uid in machine.name:
            fleet.end(machine)
    stage.world.run(minutes=3)


ACCOUNTS = (hostile_tenant, provider_taken_out, key_rotated, another_accounts_key)
