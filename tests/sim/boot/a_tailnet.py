"""Builders for worlds whose machines boot Talos and join by a tailnet, with the operator as it is shipped."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.sim.an_operator import NAMESPACE_NAME, a_class, a_secret, dial_of
from tests.sim.lives.an_estate import Lives, keys_of, lives
from tgp.adapters.factory.wire import DEFAULT_URL as FACTORY
from tgp.adapters.mesh.tailscale.dialect import TAILSCALE_API
from tgp.api.resource import CONFIG_MAP, SECRET
from tgp.app.embedded.stock import join_secret, resource_of
from tgp.app.operator import Operator, Outside
from tgp.app.settings import Settings
from tgp.core.model.boot_book import BOOK, Entry, read_line
from tgp.ports.leadership import LeadershipLost
from tgp.sim.checkers.joining import (
    JoinSecrets,
    NothingShared,
    OneCertificate,
    OneToken,
    OnPaperFirst,
    OutOfTheMesh,
    ReadyIsConnected,
    TokenGoes,
)
from tgp.sim.factory.simulator import FactorySimulator
from tgp.sim.mesh.tailnet import Tailnet
from tgp.sim.mesh.v2 import TailscaleSimulator
from tgp.sim.process import Host, Process
from tgp.sim.world import KUBERNETES, World

RBAC = Path(__file__).parents[3] / "deploy" / "rbac" / "operator.yaml"
TAG = "tag:tgp-gpu"


@dataclass
class Joining(Lives):
    tailscale: TailscaleSimulator = field(kw_only=True)
    factory: FactorySimulator = field(kw_only=True)
    replica: Process | None = None

    @property
    def tailnet(self) -> Tailnet:
        return self.tailscale.tailnet

    def hostnames(self) -> list[str]:
        return [seat.hostname for seat in self.tailnet.devices()]

    def open_keys(self) -> list[str]:
        """Auth keys that would still let somebody in."""
        return [key.id for key in self.tailnet.keys.values() if self.tailnet.is_valid(key)]

    def bootstrap_tokens(self) -> list[str]:
        secrets = self.world.api.backstage.objects(SECRET, "kube-system")
        return [each["metadata"]["name"] for each in secrets if each["type"] == "bootstrap.kubernetes.io/token"]

    def book(self) -> dict[str, Entry]:
        page = self.world.api.backstage.get(CONFIG_MAP, NAMESPACE_NAME, BOOK) or {}
        entries = (read_line(line) for line in (page.get("data") or {}).values())
        return {entry.node: entry for entry in entries if entry is not None}

    def nothing_is_left(self) -> bool:
        """Of what was made so that machines could join."""
        return not (self.hostnames() or self.open_keys() or self.bootstrap_tokens() or self.book())

    def operate(self, name: str = "operator", settings: Settings | None = None) -> Process:
        self.replica = self.world.process(name, talos_operator(settings))
        return self.replica


def talos_operator(settings: Settings | None = None):
    """The `main` of a simulated process that runs the operator as it is shipped."""

    async def main(host: Host) -> None:
        outside = Outside(
            http=host.http(KUBERNETES),
            clock=host.clock,
            entropy=host.entropy,
            host=host.name,
            namespace=NAMESPACE_NAME,
            dial=dial_of(host),
            resolver=host.process.doors.resolver,
        )
        try:
            await Operator(settings or Settings(), outside).run()
        except LeadershipLost:
            await host.exit()

    return main


@contextmanager
def joining(
    seed: int | str, *providers: str, bounds: Mapping[str, float] | None = None, **options: Any
) -> Iterator[Joining]:
    """Watched by the invariants about joining, too. `bounds`: of bootstrap tokens, where a leader does not last."""
    with lives(seed, *providers, keys=False, anybodys_hosts=False, **options) as stage:
        world = stage.world
        tailscale, factory = TailscaleSimulator(world.clock, seed), FactorySimulator(world.clock)
        world.mount(TAILSCALE_API, tailscale.handle)
        world.mount(FACTORY, factory.handle)
        stage.estate.tailnets[""] = tailscale.tailnet
        for manifest in YAML(typ="safe", pure=True).load_all(RBAC.read_text(encoding="utf-8")):
            if manifest["metadata"]["name"] != NAMESPACE_NAME:
                place(world, manifest)
        place(world, join_secret())
        keys = {"client-id": tailscale.client.id, "client-secret": tailscale.client.secret, **keys_of(stage.shops)}
        a_secret(world, "tgp-operator-secret", **keys)
        shown = Joining(stage.world, stage.estate, stage.witness, stage.shops, tailscale=tailscale, factory=factory)
        discreet = watch_joining(shown, **(bounds or {}))
        try:
            yield shown
        finally:
            discreet.close()


def watch_joining(stage: Joining, **bounds: float) -> JoinSecrets:
    """Whoever is given it closes it: it listens to the log."""
    witness, tailnet = stage.witness, stage.tailnet
    witness.call(OneToken, partial(TokenGoes, **bounds), OneCertificate, NothingShared)
    witness.add(OutOfTheMesh(witness, tailnet, can_be_asked=lambda: not stage.tailscale.mishaps.chances))
    witness.add(ReadyIsConnected(witness, tailnet))
    witness.add(OnPaperFirst(witness, TAILSCALE_API))
    return witness.add(JoinSecrets(witness, tailnet, (stage.tailscale.client.secret,)))


def place(world: World, manifest: dict[str, Any]) -> None:
    world.api.backstage.create(resource_of(world.api, manifest), manifest)


def a_tailnet_class(stage: Joining, name: str = "rented", **spec: Any) -> None:
    default = {"tailscaleConfig": {"tags": [TAG]}, "networking": {"backend": "tailscale"}}
    a_class(stage.world, name, **{**default, **spec})
