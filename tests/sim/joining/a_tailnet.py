"""Builders for worlds whose machines boot Talos and join by a tailnet, with the operator as it is shipped."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.sim.an_operator import LONE, NAMESPACE_NAME, a_class, a_secret, operator_main
from tests.sim.lifecycle.a_world import SimEnv, keys_of, sim_env
from tgp.adapters.image_factory.wire import DEFAULT_URL as FACTORY
from tgp.adapters.mesh.tailscale.server_flavour import TAILSCALE_API
from tgp.api.resource import CONFIG_MAP, SECRET
from tgp.app.demo.fixtures import join_secret, resource_of
from tgp.app.settings import Settings
from tgp.core.model.join_record import JOIN_RECORDS, JoinRecord, read_line
from tgp.services.shipped import operator_rights
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
from tgp.sim.process import Process
from tgp.sim.world import World

TAG = "tag:tgp-gpu"


@dataclass
class Joining(SimEnv):
    tailscale: TailscaleSimulator = field(kw_only=True)
    factory: FactorySimulator = field(kw_only=True)
    replica: Process | None = None

    @property
    def tailnet(self) -> Tailnet:
        return self.tailscale.tailnet

    def hostnames(self) -> list[str]:
        return [seat.hostname for seat in self.tailnet.devices()]

    def open_keys(self) -> list[str]:
        """Auth keys that are still valid."""
        return [key.id for key in self.tailnet.keys.values() if self.tailnet.is_valid(key)]

    def bootstrap_tokens(self) -> list[str]:
        secrets = self.world.api.local_api.objects(SECRET, "kube-system")
        return [each["metadata"]["name"] for each in secrets if each["type"] == "bootstrap.kubernetes.io/token"]

    def book(self) -> dict[str, JoinRecord]:
        page = self.world.api.local_api.get(CONFIG_MAP, NAMESPACE_NAME, JOIN_RECORDS) or {}
        entries = (read_line(line) for line in (page.get("data") or {}).values())
        return {entry.node: entry for entry in entries if entry is not None}

    def nothing_is_left(self) -> bool:
        """Of what was made so that machines could join."""
        return not (self.hostnames() or self.open_keys() or self.bootstrap_tokens() or self.book())

    def operate(self, name: str = "operator", settings: Settings = LONE) -> Process:
        self.replica = self.world.process(name, talos_operator(settings))
        return self.replica


def talos_operator(settings: Settings | None = None, *, shipped: bool = False):
    """The `main` of a simulated process whose machines boot Talos."""
    return operator_main(settings, shipped=shipped, boot=None)


@contextmanager
def joining(
    seed: int | str, *providers: str, bounds: Mapping[str, float] | None = None, **options: Any
) -> Iterator[Joining]:
    """Watched by the invariants about joining, too. `bounds`: of bootstrap tokens, where a leader does not last."""
    with sim_env(seed, *providers, keys=False, untrusted_hosts=False, **options) as env:
        world = env.world
        tailscale, factory = TailscaleSimulator(world.clock, seed), FactorySimulator(world.clock)
        world.mount(TAILSCALE_API, tailscale.handle)
        world.mount(FACTORY, factory.handle)
        env.node_bootstrap.tailnets[""] = tailscale.tailnet
        for manifest in operator_rights():
            if manifest["metadata"]["name"] != NAMESPACE_NAME:
                place(world, manifest)
        place(world, join_secret())
        keys = {"client-id": tailscale.client.id, "client-secret": tailscale.client.secret, **keys_of(env.simulators)}
        a_secret(world, "tgp-operator-secret", **keys)
        shown = Joining(
            env.world, env.node_bootstrap, env.recorder, env.simulators, tailscale=tailscale, factory=factory
        )
        discreet = watch_joining(shown, **(bounds or {}))
        try:
            yield shown
        finally:
            discreet.close()


def watch_joining(env: Joining, **bounds: float) -> JoinSecrets:
    """The caller closes it: it listens to the log."""
    recorder, tailnet = env.recorder, env.tailnet
    recorder.call(OneToken, partial(TokenGoes, **bounds), OneCertificate, NothingShared)
    recorder.add(OutOfTheMesh(recorder, tailnet, can_be_asked=lambda: not env.tailscale.faults.chances))
    recorder.add(ReadyIsConnected(recorder, tailnet))
    recorder.add(OnPaperFirst(recorder, TAILSCALE_API))
    return recorder.add(JoinSecrets(recorder, tailnet, (env.tailscale.client.secret,)))


def place(world: World, manifest: dict[str, Any]) -> None:
    world.api.local_api.create(resource_of(world.api, manifest), manifest)


def a_tailnet_class(env: Joining, name: str = "rented", **spec: Any) -> None:
    default = {"tailscaleConfig": {"tags": [TAG]}, "networking": {"backend": "tailscale"}}
    a_class(env.world, name, **{**default, **spec})
