"""A cluster in memory with machines at simulated providers, and the commands that a user runs on it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.sim.an_operator import NAMESPACE_NAME, a_class, a_secret, create, furnish, open_market
from tgp.adapters.clouds.registry import AllClouds
from tgp.adapters.kube.client import KubeCluster
from tgp.adapters.kube.connect import Connection
from tgp.api.decoding import decode
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.resource import CONFIG_MAP, GPU_NODE_CLASS, GPU_REQUEST, NAMESPACE, NODE, POD
from tgp.api.values import rfc3339, usd
from tgp.app.main import tgp
from tgp.core.market.sources import sources_of
from tgp.core.model.account_access import access_of
from tgp.core.model.attempts import FINALIZER, UID_ANNOTATION
from tgp.core.model.cloud_account import TABLE, account_of, line_of
from tgp.core.model.identity import cluster_id
from tgp.core.model.pod import COUNTED
from tgp.core.model.token import plain_uid, token_for
from tgp.services.cluster import ClusterService
from tgp.services.requests import RequestService
from tgp.sim.apiserver import ApiServer
from tgp.sim.clouds.fleet import WantedMachine
from tgp.sim.clouds.http_factory import Dialler
from tgp.sim.clouds.machine import SimulatedMachine
from tgp.sim.clouds.simulator import Simulator
from tgp.sim.entropy import SeededEntropy
from tgp.sim.world import KUBERNETES, World

CONTEXT = "cellar"
ORPHAN_UID = "0" * 31 + "7"
SHELF_TYPE = "rtx4090.1"


def no_market(_providers: tuple[str, ...]) -> Any:
    raise AssertionError("nothing asks a market here")


class WorldServices:
    """The services of the command line, on the simulated network."""

    def __init__(self, world: World, server: ApiServer | None = None, place: str = KUBERNETES) -> None:
        """`server`: another than the world's own, mounted at that place."""
        self.world = world
        self._place = place
        kube_system = (server or world.api).local_api.get(NAMESPACE, "", "kube-system")
        self.identity = cluster_id(kube_system["metadata"]["uid"])

    @asynccontextmanager
    async def cluster(self, _kubeconfig: str, _context: str, namespace: str) -> AsyncIterator[ClusterService]:
        http = self.world.visitor(self._place)
        entropy = SeededEntropy(self.world.seed, "person")
        clock = self.world.clock
        clouds = AllClouds(Dialler(self.world.network, clock), clock, entropy, self.world.resolver)
        yield ClusterService(
            http,
            KubeCluster(http, entropy),
            clock,
            clouds,
            namespace=namespace or NAMESPACE_NAME,
            context=CONTEXT,
            identity=self.identity,
        )

    @asynccontextmanager
    async def requests(self, _kubeconfig: str, _context: str) -> AsyncIterator[RequestService]:
        """The market of the terminal is closed: it has no API keys."""
        http, entropy = self.world.visitor(self._place), SeededEntropy(self.world.seed, "person")
        connection = Connection(http, self.world.clock, entropy, "https://cellar", CONTEXT, NAMESPACE_NAME)
        yield RequestService(connection, no_market)

    def tgp(self, *words: str, typed: str = "") -> Result:
        """As a person would, who answers `typed`; time passes as it must."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(asyncio, "run", self.world.until)
            patch.setattr("tgp.app.cli_context.CliContext", lambda _world: self)
            patch.setattr("tgp.interfaces.cli.confirm.interactive", lambda: bool(typed))
            patch.setattr("tgp.interfaces.cli.doctor.interactive", lambda: bool(typed))
            patch.setattr("tgp.interfaces.cli.down.interactive", lambda: bool(typed))
            patch.setattr("tgp.interfaces.cli.node.interactive", lambda: bool(typed))
            patch.setenv("COLUMNS", "160")
            return CliRunner().invoke(tgp, words, input=typed)

    def hold_text(self) -> str | None:
        found = self.world.api.local_api.get(NAMESPACE, "", NAMESPACE_NAME)
        return found["metadata"].get("annotations", {}).get("tgp.io/hold")


class MoneyWorld(WorldServices):
    """A cluster without an operator, with whatever a test says was bought."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        furnish(world)
        self.simulators: dict[str, Simulator] = {"simulated": open_market(world, "simulated")}
        self.simulated = self.simulators["simulated"]
        a_class(world, "box")
        create(world, CONFIG_MAP, TABLE, NAMESPACE_NAME, data={})

    # -- what is there -----------------------------------------------------------------------------------------------

    def open(self, provider: str, secret: str = "", **key: str) -> Simulator:
        """Another provider, with its key in a Secret."""
        self.simulators[provider] = simulator = open_market(self.world, provider)
        if secret:
            a_secret(self.world, secret, **key)
        return simulator

    def account(self, identity: str = "", provider: str = "simulated") -> str:
        """The id of a line in the operator's table of accounts, as it was written when that class bought there."""
        found = self.world.api.local_api.get(GPU_NODE_CLASS, "", "box")
        source = next(each for each in sources_of(decode(GPUNodeClass, found)).values() if each.provider == provider)
        account = account_of(access_of(source), identity)
        line = {"data": {account.id: line_of(account)}}
        self.world.api.local_api.merge_patch(CONFIG_MAP, NAMESPACE_NAME, TABLE, line)
        return account.id

    def machine(self, token: str, provider: str = "simulated") -> SimulatedMachine:
        fleet = self.simulators[provider].fleet
        tenant = next(iter(fleet.accounts))
        product = next(
            stand.product.id for stand in fleet.stands.values() if stand.stock > 0 and stand.product.gpu_count == 1
        )
        machine = fleet.rent(tenant, WantedMachine(product, token))
        self.world.run(seconds=10)  # listed by then
        return machine

    def orphan(self, attempt: int = 1) -> SimulatedMachine:
        return self.machine(token_for(self.identity, ORPHAN_UID, attempt))

    def request(self, name: str = "train", *, machine: bool = True, labels: Any = None, **rest: Any) -> dict[str, Any]:
        """With a machine by its status, and at the provider."""
        local_api = self.world.api.local_api
        obj = local_api.create(
            GPU_REQUEST,
            {
                "apiVersion": "tgp.io/v1",
                "kind": "GPURequest",
                "metadata": {
                    "name": name,
                    "namespace": "default",
                    "labels": labels or {},
                    "finalizers": [FINALIZER] if machine else [],
                },
                "spec": {"gpuType": "RTX4090", **rest.pop("spec", {})},
            },
        )
        uid = obj["metadata"]["uid"]
        if not machine:
            return obj
        local_api.merge_patch(GPU_REQUEST, "default", name, {"metadata": {"annotations": {UID_ANNOTATION: uid}}})
        token = token_for(self.identity, uid, 1)
        made = self.machine(token)
        status = {
            "phase": "Ready",
            "nodeClass": "box",
            "attempts": [
                {
                    "number": 1,
                    "token": token,
                    "instanceId": made.id,
                    "reservedAt": rfc3339(made.created_at),
                    "launchedAt": rfc3339(made.created_at),
                    "outcome": "Launched",
                    "account": self.account(rest.pop("identity", "")),
                    "hourlyPrice": usd(made.rate_microusd),
                    "offer": {
                        "provider": "simulated",
                        "instanceType": made.product.sku,
                        "gpuType": "RTX4090",
                        "gpuCount": 1,
                        "hourlyPrice": usd(made.rate_microusd),
                    },
                    **rest.pop("attempt", {}),
                }
            ],
            **rest,
        }
        local_api.merge_patch(GPU_REQUEST, "default", name, {"status": status}, "status")
        return self.found(name)

    def found(self, name: str = "train") -> dict[str, Any] | None:
        return self.world.api.local_api.get(GPU_REQUEST, "default", name)

    def node(self, name: str, token: str, provider: str = "simulated") -> None:
        create(
            self.world,
            NODE,
            name,
            spec={"providerID": f"tgp://{provider}/{token}"},
        )
        labels = {"tgp.io/provisioned": "true"}
        self.world.api.local_api.merge_patch(NODE, "", name, {"metadata": {"labels": labels}})

    def nodes(self) -> set[str]:
        return {obj["metadata"]["name"] for obj in self.world.api.local_api.objects(NODE)}

    def spend(self, month: str, **lines: str) -> None:
        create(self.world, CONFIG_MAP, f"tgp-spend-{month}", NAMESPACE_NAME, data=lines)
        labels = {"tgp.io/spend": month}
        self.world.api.local_api.merge_patch(
            CONFIG_MAP, NAMESPACE_NAME, f"tgp-spend-{month}", {"metadata": {"labels": labels}}
        )

    def alive(self) -> list[str]:
        fleets = [simulator.fleet for simulator in self.simulators.values()]
        for fleet in fleets:
            fleet.advance()
        return [machine.id for fleet in fleets for machine in fleet.machines.values() if machine.alive]

    def start_operator(self) -> None:
        """The least an operator does: it gives back what deleted requests held, and then lets go of them."""
        self._task = self.world.loop.create_task(self._operate())

    async def _operate(self) -> None:
        local_api = self.world.api.local_api
        while True:
            await asyncio.sleep(5)
            for obj in local_api.objects(GPU_REQUEST):
                if "deletionTimestamp" in obj["metadata"]:
                    self._give_back(obj)

    def _give_back(self, obj: dict[str, Any]) -> None:
        uid = plain_uid(obj["metadata"]["uid"])
        fleet = self.simulated.fleet
        fleet.advance()
        mine = [machine for machine in fleet.machines.values() if uid in machine.name and machine.alive]
        for machine in mine:
            fleet.end(machine)
        if not mine:
            meta = obj["metadata"]
            self.world.api.local_api.merge_patch(
                GPU_REQUEST, meta["namespace"], meta["name"], {"metadata": {"finalizers": None}}
            )


@contextmanager
def a_money_world(seed: int = 1) -> Iterator[MoneyWorld]:
    with World(seed) as world:
        yield MoneyWorld(world)


def hold_a_pod(world: World) -> None:
    """A pod without a node that was deleted, and that the finalizer of a budget holds."""
    container = {"name": "main", "image": "work:1"}
    meta = {"name": "held", "namespace": "default", "finalizers": [COUNTED]}
    world.api.local_api.create(POD, {"metadata": meta, "spec": {"containers": [container]}})
    world.api.local_api.delete(POD, "default", "held")
