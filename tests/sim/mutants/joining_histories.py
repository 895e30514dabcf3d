"""Short histories of machines that join by a tailnet: each aims at one part of how they are let in and put out."""

from collections.abc import Callable
from typing import Any

from tests.sim.boot.a_tailnet import TAG, Joining, a_tailnet_class, joining, talos_operator
from tests.sim.lives.an_estate import sold_by_anybody
from tests.sim.lives.reference import QUICK
from tgp.api.resource import CERTIFICATE_SIGNING_REQUEST, NAMESPACE
from tgp.core.rules.purchase import ALLOW_UNTRUSTED
from tgp.sim.apiserver.authentication import Authentication
from tgp.sim.apiserver.core import Ask, Write
from tgp.sim.apiserver.verbs.create import create
from tgp.sim.checkers.joining import guest_of
from tgp.sim.checkers.seen import Rented
from tgp.sim.checkers.witness import Checker
from tgp.sim.cluster.bootstrap import manifest, signing_request
from tgp.sim.estate import Ailment
from tgp.sim.mesh.mishaps import MeshMishap, MeshVerb
from tgp.sim.plans import Act, Plan

COPIES = 3  # requests that a host sends with a token it has read, at once


def begin(stage: Joining, **spec: Any) -> None:
    a_tailnet_class(stage, **spec)
    stage.world.process("tgp-0", talos_operator())
    stage.world.run(minutes=1)


def is_ready(stage: Joining) -> Callable[[], bool]:
    return lambda: stage.phase() == "Ready"


def gone(stage: Joining) -> None:
    stage.drops()
    stage.until(lambda: stage.request() is None, minutes=20)


def joins_a_tailnet(seed: str) -> None:
    """Apply, Ready, delete, gone; nothing is left."""
    with joining(seed, kubelets=QUICK) as stage:
        begin(stage)
        stage.wants()
        stage.until(is_ready(stage), minutes=20)
        stage.world.run(minutes=2)
        gone(stage)
        stage.until(stage.nothing_is_left, minutes=20)


def silent_tailnet(seed: str) -> None:
    """The control server errs while a machine is given back, and is well again afterwards."""
    with joining(seed, kubelets=QUICK) as stage:
        begin(stage)
        stage.wants()
        stage.until(is_ready(stage), minutes=20)
        stage.tailscale.mishaps.aim(MeshMishap.ERROR, MeshVerb.DELETE, times=2)
        gone(stage)
        stage.world.run(minutes=20)


def wrong_address(seed: str) -> None:
    """A kubelet takes the address of another network card: nobody reaches it through the tailnet."""
    with joining(seed, kubelets=QUICK) as stage:
        begin(stage)
        stage.estate.ailments.aim(Ailment.WRONG_ADDRESS)
        stage.wants()
        stage.world.run(minutes=6)


def namesake(seed: str) -> None:
    """Somebody else's machine joins under the name that a request asks for, at the same time."""
    with joining(seed, kubelets=QUICK) as stage:
        begin(stage)
        stage.wants(talosConfig={"tailscaleConfig": {"hostname": "trainer"}})
        stage.until(is_ready(stage), minutes=20)
        stranger = stage.tailnet.add("trainer", (TAG,))
        stage.world.run(minutes=3)
        gone(stage)

        left = [seat.id for seat in stage.tailnet.devices()]
        assert left == [stranger.id], "somebody else's device was removed, or ours stayed"


class Reader(Checker):
    """The owner of a host: reads the token in what a machine was ordered with, and asks with it before the machine."""

    def __init__(self, stage: Joining) -> None:
        super().__init__(stage.witness)
        self._stage = stage

    def made(self, rented: Rented) -> None:
        self._stage.world.loop.call_later(1.0, self._ask, rented)

    def _ask(self, rented: Rented) -> None:
        guest, core = guest_of(rented), self._stage.world.api.core
        assert guest is not None, "it was told what to become"
        user = Authentication(core, unidentified=None).user_of(guest.token)
        assert user is not None, "its token is good"
        write = Write(core, core.registry.of(CERTIFICATE_SIGNING_REQUEST), Ask(user))
        for number in range(COPIES):
            create(write, manifest(f"copied-{number}", signing_request(guest.node, f"luck {number}")))


def token_read_by_its_host(seed: str) -> None:
    """Several requests come with one token at once, all of them for the right name."""
    with joining(seed, kubelets=QUICK) as stage:
        begin(stage)
        stage.witness.add(Reader(stage))
        stage.wants()
        stage.world.run(minutes=5)


def lost_answer_to_a_token(seed: str) -> None:
    """A bootstrap token is made, and its maker hears nothing."""
    number = _number_of_the_token(seed)
    with joining(seed, kubelets=QUICK, plan=Plan("tgp-0", number, Act.LOST_ANSWER)) as stage:
        begin(stage)
        stage.wants()
        stage.until(is_ready(stage), minutes=20)


def _number_of_the_token(seed: str) -> int:
    with joining(seed, kubelets=QUICK) as stage:
        begin(stage)
        stage.wants()
        stage.until(lambda: bool(stage.bootstrap_tokens()), minutes=5, step=1)
        made = [effect for effect in stage.world.effects if effect.path.endswith("/kube-system/secrets")]
        return made[0].number


def a_marketplaces_host(seed: str) -> None:
    """A machine of somebody who sells what he owns, in a namespace that allows it."""
    with joining(seed, kubelets=QUICK) as stage:
        sold_by_anybody(stage.shop)
        change = {"metadata": {"labels": {ALLOW_UNTRUSTED: "true"}}}
        stage.world.api.backstage.merge_patch(NAMESPACE, "", "default", change)
        begin(stage, instanceRequirements={"minTrust": "Any"})
        stage.wants()
        stage.until(is_ready(stage), minutes=30)


JOINING: tuple[Callable[[str], None], ...] = (
    joins_a_tailnet,
    silent_tailnet,
    wrong_address,
    namesake,
    token_read_by_its_host,
    lost_answer_to_a_token,
    a_marketplaces_host,
)
