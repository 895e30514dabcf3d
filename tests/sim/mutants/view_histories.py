"""Lists that show nothing or the machines of others, and Nodes that are not what they say."""

from typing import Any
from unittest.mock import patch

from tests.sim.an_operator import a_class, a_pool, create, operator_main
from tests.sim.cluster.manifests import a_pod
from tests.sim.lifecycle.a_world import sim_env
from tests.sim.lifecycle.reference import QUICK
from tests.sim.mutants.a_history import begin, is_ready
from tgp.adapters.kube.store import Store
from tgp.api.resource import GPU_REQUEST, NODE, POD
from tgp.core.pools.runaway import PAUSES
from tgp.sim.clouds.cloud_faults import CloudFault
from tgp.sim.node_bootstrap import NodeFault

OTHER = "feedfacefeedfacefeedfacefeedface"  # an unused uid


def nothing_listed(seed: str) -> None:
    """For some minutes the provider answers well-formed lists of nothing; of one machine no Node has come yet."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        env.wants("one")
        env.wants("two")
        env.until(is_ready(env, "one"), minutes=20)
        env.until(is_ready(env, "two"), minutes=20)
        env.node_bootstrap.node_faults.aim(NodeFault.NEVER_REGISTERS)
        env.wants("three")
        env.until(lambda: env.phase("three") == "Booting", minutes=10)
        env.simulator.faults.chances[CloudFault.LIST_NOTHING] = 1.0
        env.world.run(minutes=8)
        env.simulator.faults.calm()
        env.world.run(minutes=3)

        assert (env.phase("one"), env.phase("two")) == ("Ready", "Ready")


def another_account(seed: str) -> None:
    """The key comes to belong to another account while one machine serves and another has not joined yet."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        env.wants()
        env.until(is_ready(env), minutes=20)
        env.node_bootstrap.node_faults.aim(NodeFault.NEVER_REGISTERS)
        env.wants("another")
        env.until(lambda: env.phase("another") == "Booting", minutes=10)
        accounts = env.simulator.fleet.accounts
        mine = accounts.of("")
        assert mine is not None
        accounts.hand_over("", accounts.other_than(mine.id).id)
        env.world.run(minutes=8)
        accounts.hand_over("", mine.id)
        env.world.run(minutes=3)

        assert env.phase() == "Ready"


def another_machines_node(seed: str) -> None:
    """A Node of the reserved name is there already, and it is another request's."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        env.node_bootstrap.node_faults.aim(NodeFault.NEVER_REGISTERS)
        env.wants()
        env.until(lambda: bool((env.request() or {}).get("status", {}).get("nodeName")), minutes=3, step=0.5)
        name = env.request()["status"]["nodeName"]
        told = f"tgp://simulated/tgp-{env.recorder.cluster}-{OTHER}-1"
        create(env.world, NODE, name, spec={"providerID": told})
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "", "lastHeartbeatTime": None}
        amounts = {"cpu": "12", "memory": "48Gi", "nvidia.com/gpu": "1", "pods": "110"}
        status = {"allocatable": amounts, "capacity": amounts, "conditions": [ready]}
        env.world.api.local_api.merge_patch(NODE, "", name, {"status": status}, "status")
        env.world.api.local_api.merge_patch(NODE, "", name, {"spec": {"taints": None}})
        env.world.run(minutes=8)


def pods_for_another_machines_node(seed: str) -> None:
    """The same Node, where a pool has bought the machine for a pod, and another pod could take it."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        a_pool(env.world, "team", "rented")
        env.node_bootstrap.node_faults.aim(NodeFault.NEVER_REGISTERS, NodeFault.NEVER_REGISTERS)
        env.world.run(seconds=10)
        tolerations = [{"operator": "Exists"}]
        local = env.world.api.local_api
        local.create(POD, a_pod("any", gpus=1, tolerations=tolerations))
        local.create(POD, a_pod("large", gpus=1, tolerations=tolerations, nodeSelector={"tgp.io/gpu-memory": "80"}))
        reserved: list[dict[str, Any]] = []

        def both_reserved() -> bool:
            reserved[:] = [row for row in local.objects(GPU_REQUEST) if row.get("status", {}).get("nodeName")]
            return len(reserved) == 2

        env.until(both_reserved, minutes=3, step=0.5)
        for row in reserved:
            told = f"tgp://simulated/tgp-{env.recorder.cluster}-{OTHER}-1"
            create(env.world, NODE, row["status"]["nodeName"], spec={"providerID": told})
        env.world.run(minutes=2)

        pods = [local.get(POD, "default", name) for name in ("any", "large")]
        told_to = [pod["status"].get("nominatedNodeName") for pod in pods if pod is not None]
        assert told_to == [None, None], "a pod was nominated to another machine's Node"


def smaller_than_promised(seed: str) -> None:
    """Every machine that fits a pod by its offer comes up with less memory than the pod needs."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        a_pool(env.world, "team", "rented", disruption={"consolidateAfter": "2m"})
        env.world.run(seconds=10)
        pod = a_pod("train", gpus=1, tolerations=[{"operator": "Exists"}], nodeSelector={"tgp.io/gpu-type": "T4"})
        pod["spec"]["containers"][0]["resources"]["limits"]["memory"] = "14900Mi"  # of 16 GiB: 92 % are promised
        env.world.api.local_api.create(POD, pod)
        env.world.run(hours=2)

        assert len(env.simulator.fleet.machines) <= len(PAUSES), "a pod was bought one useless machine after another"


def no_request_shown(seed: str) -> None:
    """For a minute the API server lists no request at all, to a leader that has never heard of one."""
    put, blind = Store.replace, [False]

    async def replace_all(store: Store[Any], listed: Any, version: int, *, rewound: bool = False) -> None:
        shown = {} if blind[0] and store.resource is GPU_REQUEST else listed
        await put(store, shown, version, rewound=rewound)

    with patch.object(Store, "replace", replace_all), sim_env(seed, kubelets=QUICK) as env:
        a_class(env.world, "rented")
        operator = env.world.process("tgp-0", operator_main(shipped=True))
        env.world.run(minutes=1)
        env.wants(idleTimeout="Never")
        env.until(is_ready(env), minutes=20)
        blind[0] = True
        operator.crash(restart_after=5.0)
        env.world.run(seconds=70)
        blind[0] = False
        env.world.run(minutes=10)

        assert env.phase() == "Ready", "its request was there all the time"


VIEWS = (
    nothing_listed,
    no_request_shown,
    another_account,
    another_machines_node,
    pods_for_another_machines_node,
    smaller_than_promised,
)
