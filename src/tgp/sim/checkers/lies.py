"""The invariants about providers that say untrue things: I26 and I27. Judged by what is, never by what was said."""

from tgp.api.common import OWNED_PROVIDER
from tgp.api.resource import NODE
from tgp.api.values import usd
from tgp.core.model.object_key import ObjectKey
from tgp.core.requests.node_state import read_provider_id
from tgp.core.requests.purchase import PRICE_TOLERANCE
from tgp.sim.apiserver.json_value import Json
from tgp.sim.checkers.money import price_of
from tgp.sim.checkers.recorded import RecordedRequest, Rented, is_ready
from tgp.sim.checkers.recorder import Checker
from tgp.sim.clouds.machine import Phase
from tgp.sim.router import Exchange

NODES = NODE.path() + "/"
LOST = frozenset({"Lost", "Broken"})
EXPENSIVE = "PriceExceeded"


class NoLieBelieved(Checker):
    """I27: a machine in use is not terminated for a false report of its provider.

    A Node with the provider ID of something else does not show it: such a Node must not be adopted (I16).
    """

    invariant = "I27"

    def claimed(self, before: RecordedRequest | None, after: RecordedRequest | None) -> None:
        if after is None or (before is not None and before.condition("Terminating").get("status") == "True"):
            return
        ending = after.condition("Terminating")
        if ending.get("status") != "True" or after.deleting:
            return
        for rented in self.recorder.of_uid(after.uid):
            if after.is_open(rented.text) and after.rows[rented.text].get("instanceId") == rented.machine.id:
                self._judge(after, rented, str(ending.get("reason")))

    def _judge(self, claim: RecordedRequest, rented: Rented, reason: str) -> None:
        machine = rented.machine
        runs = machine.phase is Phase.RUNNING and not machine.interrupted
        node = self._node(claim.node)
        if reason in LOST and runs and is_ready(node) and not _is_of_another(node, rented):
            self.blame(f"{claim.name} gives {rented} back as {reason}, and it runs, and its Node is Ready")
        agreed, cap = price_of(claim.rows[rented.text]), claim.cap_microusd
        if reason == EXPENSIVE and agreed is not None:
            most = int(agreed * PRICE_TOLERANCE) if cap is None else min(cap, int(agreed * PRICE_TOLERANCE))
            if machine.rate_microusd <= min(most, agreed):
                self.blame(f"{claim.name} gives {rented} back as {reason}, and it costs ${usd(machine.rate_microusd)}")

    def _node(self, name: str) -> Json | None:
        return self.recorder.world.api.local_api.get(NODE, "", name)


def _is_of_another(node: Json | None, rented: Rented) -> bool:
    named = str((node or {}).get("spec", {}).get("providerID") or "")
    mark = read_provider_id(named)
    return rented.provider != OWNED_PROVIDER and bool(named) and (mark is None or str(mark[1]) != rented.text)


class ReadyNodesStay(Checker):
    """I26: no Node that is Ready is deleted while its machine runs and its request is not being deleted."""

    invariant = "I26"

    def changing(self, exchange: Exchange) -> None:
        call = exchange.call
        if call.method != "DELETE" or not call.path.startswith(NODES):
            return
        name = ObjectKey("", call.path.removeprefix(NODES)).name
        node = self.recorder.world.api.local_api.get(NODE, "", name)
        marked = read_provider_id((node or {}).get("spec", {}).get("providerID", ""))
        if node is None or marked is None or not is_ready(node):
            return
        token = marked[1]
        claim = self.recorder.claims.get(token.uid)
        for rented in self.recorder.of_uid(token.uid):
            kept = claim is not None and not claim.deleting
            if rented.text == str(token) and rented.machine.phase is Phase.RUNNING and kept:
                self.blame(f"Node {name} is deleted, and it is Ready, and {rented} runs")
