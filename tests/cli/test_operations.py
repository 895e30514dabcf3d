"""docs/operations.md, walked: what an administrator does to an installation, and what becomes of the machines.

Each section has its tests, here or where they already were.
"""

import ast
import json
import re
from contextlib import asynccontextmanager
from pathlib import Path

from tests.cli.money_world import WorldServices
from tests.sim.an_operator import LONE, NAMESPACE_NAME, a_class, create, operator_main
from tests.sim.lifecycle.a_world import keys_of, sim_env
from tgp.adapters.clouds.registry import AllClouds
from tgp.api.resource import CONFIG_MAP, GPU_REQUEST, NAMESPACE, SECRET
from tgp.core.model.token import cluster_prefix, plain_uid
from tgp.services.credentials import of_environment
from tgp.services.marked_machines import marked_machines
from tgp.sim.apiserver.json_value import copied
from tgp.sim.clouds.fleet import WantedMachine
from tgp.sim.clouds.http_factory import Dialler
from tgp.sim.entropy import SeededEntropy

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
WALKED = {  # section → file and tests
    "Upgrade": {
        "tests/controlplane/test_installed.py": (
            "test_an_upgrade_hands_over_while_a_machine_boots",
            "test_a_rollback_keeps_later_fields_and_the_former_operator_works",
        ),
        "tests/sim/lifecycle/test_outdated_kinds.py": (
            "test_nothing_is_bought_until_they_are_updated_and_terminations_go_on",
        ),
    },
    "Backup": {"tests/cli/test_operations.py": ("test_a_backup_of_what_the_page_names_is_enough",)},
    "Restore": {
        "tests/controlplane/test_restore.py": (
            "test_a_restored_etcd_is_noticed_and_no_machine_is_bought_twice_or_forgotten",
        ),
        "tests/sim/lifecycle/test_histories.py": ("test_a_request_restored_from_a_backup_buys_nothing",),
    },
    "Move to another namespace or release name": {
        "tests/cli/test_operations.py": ("test_an_operator_that_moves_to_another_namespace_goes_on_there",),
        "tests/controlplane/test_uninstall.py": ("test_helm_uninstall_is_refused_before_anything_is_deleted",),
    },
    "Move to another cluster": {
        "tests/cli/test_operations.py": ("test_a_cluster_that_is_left_terminates_its_own_machines_only",),
        "tests/sim/lifecycle/test_histories.py": ("test_two_clusters_on_one_account_leave_each_other_alone",),
    },
    "The cluster is gone: what still runs?": {
        "tests/cli/test_operations.py": ("test_a_laptop_with_keys_finds_what_a_gone_cluster_left",),
        "tests/cli/test_doctor_anywhere.py": ("test_one_cluster_is_named_by_its_id_or_by_the_uid_it_comes_from",),
    },
}


def test_every_section_is_walked_by_tests_that_exist():
    assert re.findall(r"^## (.+)$", PAGE, re.MULTILINE) == list(WALKED)
    for tests in WALKED.values():
        for file, names in tests.items():
            tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
            assert set(names) <= {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, file


def begin(env, namespace: str = NAMESPACE_NAME):
    """An operator there; the process, so that it can be ended."""
    process = env.world.process(f"operator-{namespace}", operator_main(LONE, namespace=namespace))
    env.world.run(minutes=2)
    return process


def rented(env, name: str = "train") -> None:
    env.wants(name, idleTimeout="Never")
    env.until(lambda: env.phase(name) == "Ready", minutes=30)


def copied_to(env, namespace: str, names) -> None:
    """Secrets and ConfigMaps of the operator's namespace, as an administrator copies them."""
    api = env.world.api.local_api
    for resource in (SECRET, CONFIG_MAP):
        for found in api.objects(resource, NAMESPACE_NAME):
            name = found["metadata"]["name"]
            if names(name):
                create(env.world, resource, name, namespace, data=dict(found.get("data", {})))
                labels = {"metadata": {"labels": found["metadata"].get("labels", {})}}
                api.merge_patch(resource, namespace, name, labels)


def spent(services: WorldServices, *words: str) -> dict[str, float]:
    return json.loads(services.tgp("cost", *words, "-o", "json").output)["total"]


def test_an_operator_that_moves_to_another_namespace_goes_on_there():
    """By the commands of the page: nothing is rented meanwhile, and the history goes along."""
    with sim_env("moved") as env:
        services = WorldServices(env.world)
        a_class(env.world, "rented")
        before = begin(env)
        rented(env)
        assert services.tgp("down", "--yes").exit_code == 0
        env.until(lambda: env.living() == [] and env.phase() == "gone", minutes=30)
        cost = spent(services)
        before.stop()
        assert services.tgp("release", "--yes").exit_code == 0  # the pause of `tgp down` stays behind: see I28
        create(env.world, NAMESPACE, "other")
        copied_to(env, "other", lambda name: name == "tgp-operator-secret" or name.startswith("tgp-spend-"))
        begin(env, "other")
        rented(env, "again")

        assert len(env.living()) == 1
        both = spent(services, "--operator-namespace", "other")
        assert (cost["machines"], both["machines"]) == (1, 2)
        assert both["usd"] > cost["usd"] > 0
        assert services.tgp("doctor", "--operator-namespace", "other").exit_code == 0
        env.drops("again")
        env.until(lambda: env.living() == [], minutes=30)


def test_a_cluster_that_is_left_terminates_its_own_machines_only():
    """The new cluster, on the same account, has machines already."""
    with sim_env("left") as env:
        services = WorldServices(env.world)
        fleet = env.simulator.fleet
        theirs = f"{cluster_prefix('00000000ff')}{'ab' * 16}-1"
        fleet.rent(fleet.accounts.of(""), WantedMachine("t4.1@us-west-1", theirs))
        a_class(env.world, "rented")
        begin(env)
        rented(env)
        ended = services.tgp("down", "--yes")

        assert ended.exit_code == 0, ended.output
        assert [machine.name for machine in env.living()] == [theirs]


def test_a_backup_of_what_the_page_names_is_enough():
    """Objects with their status, ConfigMaps and Secrets come back under new uids: the copy buys nothing, its machine
    goes, and what was spent is still on record.
    """
    with sim_env("backup") as env:
        services = WorldServices(env.world)
        a_class(env.world, "rented")
        process = begin(env)
        rented(env, "past")
        env.drops("past")
        env.until(lambda: env.phase("past") == "gone", minutes=30)
        cost = spent(services)
        rented(env)
        process.stop()
        api = env.world.api.local_api
        request = kept(api.get(GPU_REQUEST, "default", "train"))
        maps = [kept(found) for found in api.objects(CONFIG_MAP, NAMESPACE_NAME)]
        env.recorder.forced[plain_uid(env.request()["metadata"]["uid"])] = None
        api.merge_patch(GPU_REQUEST, "default", "train", {"metadata": {"finalizers": None}})
        env.drops()
        for found in maps:
            api.delete(CONFIG_MAP, NAMESPACE_NAME, found["metadata"]["name"])

        for found in maps:
            api.create(CONFIG_MAP, found)
        api.create(GPU_REQUEST, {**request, "status": {}})
        api.merge_patch(GPU_REQUEST, "default", "train", {"status": request["status"]}, "status")
        process.start()
        env.until(lambda: env.living() == [], minutes=60)

        assert env.condition("Restored")[0] == "True"
        assert len(env.simulator.fleet.machines) == 2, "nothing was bought again"
        assert spent(services) == cost
        assert cost["usd"] > 0


def kept(found: dict) -> dict:
    """What a backup keeps of an object."""
    saved = copied(found)
    for field in ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"):
        saved["metadata"].pop(field, None)
    return saved


class Laptop(WorldServices):
    """A terminal with the API keys and without a cluster."""

    def __init__(self, env) -> None:
        super().__init__(env.world)
        self._keys = keys_of(env.simulators)

    @asynccontextmanager
    async def market(self, *_where):
        yield self

    def cluster(self, *_where):
        raise AssertionError("the cluster is gone")

    async def machines(self):
        clock, entropy = self.world.clock, SeededEntropy(self.world.seed, "laptop")
        clouds = AllClouds(Dialler(self.world.network, clock), clock, entropy, self.world.resolver)
        return await marked_machines(of_environment(("vultr",), self._keys), clouds)


def test_a_laptop_with_keys_finds_what_a_gone_cluster_left():
    """No invariant is asked: the operator is gone, and its machine costs on."""
    with sim_env("gone", "vultr", invariants=()) as env:
        a_class(env.world, "rented", providers=[{"name": "vultr"}])
        process = begin(env)
        gpu = next(iter(env.simulator.fleet.stands.values())).product.gpu
        env.wants(gpuType=gpu, idleTimeout="Never")
        env.until(lambda: env.phase() in {"Booting", "Joining", "Ready"}, minutes=60)
        process.crash()
        laptop, (machine,) = Laptop(env), env.living()
        uid = env.world.api.local_api.get(NAMESPACE, "", "kube-system")["metadata"]["uid"]

        for words in (("--no-cluster",), ("--cluster-id", laptop.identity), ("--cluster-id", uid)):
            found = laptop.tgp("doctor", *words)
            assert found.exit_code == 1, found.output
            assert f"Cluster {laptop.identity}: 1 machine" in found.output
            assert machine.id in found.output
        assert laptop.tgp("doctor", "--cluster-id", "00000000ff").exit_code == 0
        env.simulator.fleet.end(machine)
        env.world.run(minutes=5)
        assert laptop.tgp("doctor", "--cluster-id", uid).exit_code == 0
