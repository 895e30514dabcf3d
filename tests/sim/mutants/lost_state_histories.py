"""Requests that lose their status or their finalizer, and an etcd that is restored from a backup."""

from collections.abc import Callable

from tests.sim.lifecycle.a_world import SimEnv, sim_env
from tests.sim.lifecycle.reference import QUICK
from tests.sim.mutants.a_history import FOUR, all_ready, at_first_order, begin, crash, is_ready, slow_orders, wipe
from tgp.api.resource import GPU_REQUEST, NAMESPACE
from tgp.core.model.attempts import FINALIZER, UID_ANNOTATION
from tgp.core.model.token import plain_uid
from tgp.sim.apiserver.storage import StorageSnapshot
from tgp.sim.checkers.money import NoEndWithoutReason, NoOrphan
from tgp.sim.checkers.registry import INVARIANTS
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb


def wiped(seed: str) -> None:
    """A tool writes the request again and loses its status."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        env.wants()
        env.until(is_ready(env), minutes=20)
        wipe(env)
        env.world.run(minutes=10)
        env.until(is_ready(env), minutes=20)

        assert len(env.living()) == 1


def wiped_while_it_is_ordered(seed: str) -> None:
    """The same while an order is under way, and its buyer dies."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        slow_orders(env)

        def misfortune() -> None:
            crash(env)()
            wipe(env)

        at_first_order(env, misfortune, after=0.5)
        env.wants()
        env.world.run(minutes=5)
        env.until(is_ready(env), minutes=20)


def four_wiped(seed: str) -> None:
    """Four statuses are wiped while their machines serve: every machine goes on under its own request."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env, limits={"maxNodes": 4})
        for name in FOUR:
            env.wants(name)
        env.until(all_ready(env), minutes=20)
        before = sorted(machine.id for machine in env.living())
        for name in FOUR:
            wipe(env, name)
        env.wants("fifth")  # there is no room for it, whatever the statuses say
        env.world.run(minutes=15)

        assert sorted(machine.id for machine in env.living()) == before, "a machine was ended or bought for a wipe"
        assert all(env.phase(name) == "Ready" for name in FOUR)


def four_wiped_while_they_are_ordered(seed: str) -> None:
    """Four statuses are wiped during their orders, and the buyer dies; then two of the requests are deleted."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        slow_orders(env)

        def misfortune() -> None:
            crash(env)()
            for name in FOUR:
                wipe(env, name)

        at_first_order(env, misfortune, after=2.0)
        for name in FOUR:
            env.wants(name)
        env.world.run(minutes=2)
        for name in FOUR[:2]:
            env.drops(name)
        env.until(all_ready(env, FOUR[2:]), minutes=20)
        env.until(lambda: not any(env.request(name) for name in FOUR[:2]), minutes=20)

        assert len(env.living()) == 2
        assert max(len(env.attempts(name)) for name in FOUR[2:]) <= 2


def declared_over(seed: str) -> None:
    """A user writes into four statuses that their attempts have ended, and the machines run on."""
    kinds = tuple(kind for kind in INVARIANTS if kind is not NoEndWithoutReason)  # a person ended it, for no reason
    with sim_env(seed, kubelets=QUICK, invariants=kinds) as env:
        begin(env)
        for name in FOUR:
            env.wants(name, idleTimeout="Never")
        env.until(all_ready(env), minutes=20)
        for name in FOUR:
            *earlier, row = env.attempts(name)
            over = {"attempts": [*earlier, {**row, "outcome": "Failed", "endedAt": row["launchedAt"]}]}
            env.world.api.local_api.merge_patch(GPU_REQUEST, "default", name, {"status": over}, "status")
        env.world.run(minutes=10)
        env.until(all_ready(env), minutes=20)

        assert len(env.living()) == len(FOUR)


def rewound(seed: str) -> None:
    """etcd is restored to the moment before its machines were rented. No list is old; one request is deleted then."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        for name in FOUR:
            env.wants(name, idleTimeout="Never")
        env.until(lambda: all(_guarded(env, name) for name in FOUR), minutes=1, step=0.01)
        backup = env.world.api.snapshot()
        env.until(lambda: len(env.living()) == len(FOUR), minutes=5)
        env.world.run(minutes=2)
        env.world.api.restore(backup)
        env.drops(FOUR[0])
        env.until(lambda: env.request(FOUR[0]) is None, minutes=6)
        env.world.run(minutes=2)

        assert len(env.living()) == len(FOUR) - 1, "a machine was bought again, or lost its request"
        assert all(env.attempts(name)[-1]["outcome"] == "Launched" for name in FOUR[1:])


def rewound_and_carried_past(seed: str) -> None:
    """The same, where other writers have carried the revision beyond the old one before it could be read."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        env.wants(idleTimeout="Never")
        env.until(is_ready(env), minutes=20)
        backup = env.world.api.snapshot()
        env.world.run(minutes=10)
        old = env.world.api.store.revision
        env.world.api.restore(backup)
        env.drops()
        while env.world.api.store.revision <= old:
            change = {"metadata": {"annotations": {"written": str(env.world.api.store.revision)}}}
            env.world.api.local_api.merge_patch(NAMESPACE, "", "default", change)
        env.until(lambda: env.request() is None, minutes=5)

        assert env.living() == []


def rewound_to_a_reservation(seed: str) -> None:
    """The same, to the moment of an order that came to nothing: its reservation stands there again."""
    _rewound_to_an_order(seed, lambda env: "endedAt" in (*env.attempts(), {})[0])


def rewound_past_an_attempt(seed: str) -> None:
    """The same, once the attempt after that has its machine: the request goes on with that one."""
    _rewound_to_an_order(seed, lambda env: bool(env.living()))


def _rewound_to_an_order(seed: str, when: Callable[[SimEnv], bool]) -> None:
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        env.simulator.faults.aim(CloudFault.HANG_UP, CloudVerb.LAUNCH)
        backups = list[StorageSnapshot]()
        at_first_order(env, lambda: backups.append(env.world.api.snapshot()))
        env.wants()
        env.until(lambda: when(env), minutes=20, step=0.5)
        env.world.api.restore(backups[0])
        env.world.run(minutes=8)

        assert len(env.simulator.fleet.machines) == 1, "a machine was bought again"
        assert [row["outcome"] for row in env.attempts()] == ["NotCreated", "Launched"]


def _guarded(env: SimEnv, name: str) -> bool:
    return FINALIZER in (env.request(name) or {"metadata": {}})["metadata"].get("finalizers", ())


def restored_to_before(seed: str) -> None:
    """etcd is restored to a day on which none of its requests existed: four machines of four belong to none."""
    kinds = tuple(kind for kind in INVARIANTS if kind is not NoOrphan)
    with sim_env(seed, kubelets=QUICK, invariants=kinds) as env:
        begin(env)
        backup = env.world.api.snapshot()
        for name in FOUR:
            env.wants(name, idleTimeout="Never")
        env.until(all_ready(env), minutes=20)
        env.recorder.forced.update(dict.fromkeys(env.recorder.claims))  # a restore releases all of them
        env.world.api.restore(backup)
        env.world.run(minutes=9)
        assert len(env.living()) == 4, "the collector ended everything there was, unasked"
        env.world.run(minutes=9)

        assert env.living() == [], "machines that belong to no request are paid for ever"


def restored(seed: str) -> None:
    """A copy from a backup: the old finalizer, the old uid, and no status."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        meta = {"finalizers": [FINALIZER], "annotations": {UID_ANNOTATION: "0b0b0b0b-0000-4000-8000-0b0b0b0b0b0b"}}
        obj = {"metadata": {"name": "train", "namespace": "default", **meta}, "spec": {"gpuType": "RTX4090"}}
        env.world.api.local_api.create(GPU_REQUEST, obj)
        env.world.run(minutes=6)

        assert not env.simulator.fleet.machines, "a restored copy bought a machine"


def all_finalizers_stripped(seed: str) -> None:
    """All requests are deleted by force at once: implausibly many machines become orphans."""
    kinds = tuple(kind for kind in INVARIANTS if kind is not NoOrphan)
    with sim_env(seed, kubelets=QUICK, invariants=kinds) as env:
        begin(env)
        for number in range(4):
            env.wants(f"train-{number}")
        env.until(lambda: all(is_ready(env, f"train-{number}")() for number in range(4)), minutes=20)
        for number in range(4):
            force(env, f"train-{number}")
        env.world.run(minutes=6)

        assert len(env.living()) == 4, "the collector ended everything there was, unasked"


def force(env: SimEnv, name: str) -> None:
    """`kubectl patch … finalizers: null`, and delete."""
    found = env.request(name)
    assert found is not None
    env.recorder.forced[plain_uid(found["metadata"]["uid"])] = None
    env.drops(name)
    env.world.api.local_api.merge_patch(GPU_REQUEST, "default", name, {"metadata": {"finalizers": None}})


LOST_STATE = (
    wiped,
    wiped_while_it_is_ordered,
    four_wiped,
    four_wiped_while_they_are_ordered,
    declared_over,
    rewound,
    rewound_and_carried_past,
    rewound_to_a_reservation,
    rewound_past_an_attempt,
    restored_to_before,
    restored,
    all_finalizers_stripped,
)
