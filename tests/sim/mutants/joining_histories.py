"""Short histories of machines that join by a tailnet: each aims at one part of how they are let in and put out."""

from collections.abc import Callable
from typing import Any

from tests.sim.joining.a_tailnet import TAG, Joining, a_tailnet_class, joining, talos_operator
from tests.sim.lifecycle.a_world import sold_by_any_host
from tests.sim.lifecycle.reference import QUICK
from tgp.api.resource import CERTIFICATE_SIGNING_REQUEST, NAMESPACE
from tgp.core.requests.purchase import ALLOW_UNTRUSTED
from tgp.sim.apiserver.authentication import Authentication
from tgp.sim.apiserver.core import Ask, Write
from tgp.sim.apiserver.verbs.create import create
from tgp.sim.checkers.joining import guest_of
from tgp.sim.checkers.recorded import Rented
from tgp.sim.checkers.recorder import Checker
from tgp.sim.cluster.bootstrap import manifest, signing_request
from tgp.sim.mesh.mesh_faults import MeshFault, MeshVerb
from tgp.sim.node_bootstrap import NodeFault
from tgp.sim.plans import Act, FaultPlan

COPIES = 3  # requests that a host sends with a token it has read, at once


def begin(env: Joining, **spec: Any) -> None:
    a_tailnet_class(env, **spec)
    env.world.process("tgp-0", talos_operator(shipped=True))
    env.world.run(minutes=1)


def is_ready(env: Joining) -> Callable[[], bool]:
    return lambda: env.phase() == "Ready"


def gone(env: Joining) -> None:
    env.drops()
    env.until(lambda: env.request() is None, minutes=20)


def joins_a_tailnet(seed: str) -> None:
    """Apply, Ready, delete, gone; nothing is left."""
    with joining(seed, kubelets=QUICK) as env:
        begin(env)
        env.wants()
        env.until(is_ready(env), minutes=20)
        env.world.run(minutes=2)
        gone(env)
        env.until(env.nothing_is_left, minutes=20)


def silent_tailnet(seed: str) -> None:
    """The control server errs while a machine is terminated, and is well again afterwards."""
    with joining(seed, kubelets=QUICK) as env:
        begin(env)
        env.wants()
        env.until(is_ready(env), minutes=20)
        env.tailscale.faults.aim(MeshFault.ERROR, MeshVerb.DELETE, times=2)
        gone(env)
        env.world.run(minutes=20)


def wrong_address(seed: str) -> None:
    """A kubelet takes the address of another network interface: it cannot be reached through the tailnet."""
    with joining(seed, kubelets=QUICK) as env:
        begin(env)
        env.node_bootstrap.node_faults.aim(NodeFault.WRONG_ADDRESS)
        env.wants()
        env.world.run(minutes=6)


def namesake(seed: str) -> None:
    """A foreign machine joins under the name that a request asks for, at the same time."""
    with joining(seed, kubelets=QUICK) as env:
        begin(env)
        env.wants(talosConfig={"tailscaleConfig": {"hostname": "trainer"}})
        env.until(is_ready(env), minutes=20)
        stranger = env.tailnet.add("trainer", (TAG,))
        env.world.run(minutes=3)
        gone(env)

        left = [seat.id for seat in env.tailnet.devices()]
        assert left == [stranger.id], "a foreign device was removed, or ours stayed"


class Reader(Checker):
    """The owner of a host: reads the token in what a machine was ordered with, and asks with it before the machine."""

    def __init__(self, env: Joining) -> None:
        super().__init__(env.recorder)
        self._env = env

    def made(self, rented: Rented) -> None:
        self._env.world.loop.call_later(1.0, self._ask, rented)

    def _ask(self, rented: Rented) -> None:
        guest, core = guest_of(rented), self._env.world.api.core
        assert guest is not None, "it was told what to become"
        user = Authentication(core, unidentified=None).user_of(guest.token)
        assert user is not None, "its token is good"
        write = Write(core, core.registry.of(CERTIFICATE_SIGNING_REQUEST), Ask(user))
        for number in range(COPIES):
            create(write, manifest(f"copied-{number}", signing_request(guest.node, f"luck {number}")))


def token_read_by_its_host(seed: str) -> None:
    """Several requests come with one token at once, all of them for the right name."""
    with joining(seed, kubelets=QUICK) as env:
        begin(env)
        env.recorder.add(Reader(env))
        env.wants()
        env.world.run(minutes=5)


def lost_answer_to_a_token(seed: str) -> None:
    """A bootstrap token is made, and its maker hears nothing."""
    number = _number_of_the_token(seed)
    with joining(seed, kubelets=QUICK, plan=FaultPlan("tgp-0", number, Act.LOST_ANSWER)) as env:
        begin(env)
        env.wants()
        env.until(is_ready(env), minutes=20)


def _number_of_the_token(seed: str) -> int:
    with joining(seed, kubelets=QUICK) as env:
        begin(env)
        env.wants()
        env.until(lambda: bool(env.bootstrap_tokens()), minutes=5, step=1)
        made = [effect for effect in env.world.effects if effect.path.endswith("/kube-system/secrets")]
        return made[0].number


def a_marketplaces_host(seed: str) -> None:
    """A machine of a marketplace host, in a namespace that allows it."""
    with joining(seed, kubelets=QUICK) as env:
        sold_by_any_host(env.simulator)
        change = {"metadata": {"labels": {ALLOW_UNTRUSTED: "true"}}}
        env.world.api.local_api.merge_patch(NAMESPACE, "", "default", change)
        begin(env, instanceRequirements={"minTrust": "Any"})
        env.wants()
        env.until(is_ready(env), minutes=30)


JOINING: tuple[Callable[[str], None], ...] = (
    joins_a_tailnet,
    silent_tailnet,
    wrong_address,
    namesake,
    token_read_by_its_host,
    lost_answer_to_a_token,
    a_marketplaces_host,
)
