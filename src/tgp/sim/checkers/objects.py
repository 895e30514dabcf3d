"""The invariants about objects in the cluster: I13 to I18."""

from collections.abc import Iterator
from types import TracebackType
from typing import Self

from tgp.api.resource import GPU_REQUEST, NODE
from tgp.core.model.token import read_token
from tgp.sim.checkers.recorded import RecordedOrder, RecordedRequest, Rented, is_ready
from tgp.sim.checkers.recorder import Checker, Recorder, Violation
from tgp.sim.clouds.machine import Phase
from tgp.sim.plans import Effect
from tgp.sim.router import Exchange
from tgp.sim.world import KUBERNETES, World

OVER = ("Finished", "Failed")
PROVIDER_ID = "tgp://"


class FinalizerHolds(Checker):
    """I13: the finalizer is there before the first order, and goes only when no machine of that request is left.

    Or none that its provider or its Node would show.
    """

    invariant = "I13"

    def ordered(self, order: RecordedOrder) -> None:
        claim = self.recorder.claims.get(order.token.uid) if order.token is not None else None
        if claim is not None and not (claim.guarded and claim.marked):
            self.blame(f"{order} for {claim.name}, which no finalizer guards yet")

    def claimed(self, before: RecordedRequest | None, after: RecordedRequest | None) -> None:
        if before is None or not before.guarded or (after is not None and after.guarded):
            return
        if before.uid in self.recorder.forced:
            return
        for rented in self.recorder.of_uid(before.uid):
            if not (rented.excused or rented.denied or self._is_denied(rented)):
                self.blame(f"{before.name} was let go while {rented} is there")

    def _is_denied(self, rented: Rented) -> bool:
        """Its provider denies it in lists and by id, and no Ready Node shows it; its record may have been wiped."""
        lie = self.recorder.providers[rented.provider].fleet.lie
        nodes = self.recorder.world.api.local_api.objects(NODE)
        shown = any(
            str(node.get("spec", {}).get("providerID", "")).endswith(f"/{rented.text}") and is_ready(node)
            for node in nodes
        )
        return lie is not None and lie.denies and not shown


class ConditionalWrites(Checker):
    """I14: what we write to a request is conditional on what we saw of it."""

    invariant = "I14"
    _part = f"/{GPU_REQUEST.plural}/"

    def changing(self, exchange: Exchange) -> None:
        call = exchange.call
        writes = exchange.endpoint.name == KUBERNETES and call.method in ("PATCH", "PUT") and self._part in call.path
        if writes and b'"resourceVersion"' not in call.body:
            self.blame(f"{exchange.who} wrote {call.path} whatever stood there")


class OwnUid(Checker):
    """I16: the same name under a new uid is another object. We order for none that is gone, and adopt no Node."""

    invariant = "I16"

    def ordered(self, order: RecordedOrder) -> None:
        if order.token is not None and order.token.uid not in self.recorder.claims:
            self.blame(f"{order}, for a request that does not exist")

    def claimed(self, before: RecordedRequest | None, after: RecordedRequest | None) -> None:
        if after is None or not _is_ready(after) or (before is not None and _is_ready(before)):
            return
        if after.copied:
            return  # a restored copy says what its original said
        node = self.recorder.world.api.local_api.get(NODE, "", after.node)
        raw = str(((node or {}).get("spec") or {}).get("providerID") or "")
        token = read_token(raw.rpartition("/")[2]) if raw.startswith(PROVIDER_ID) else None
        if token is not None and token.uid != after.uid:
            self.blame(f"{after.name} took Node {after.node} for its own, which is {raw}")


def _is_ready(claim: RecordedRequest) -> bool:
    return claim.condition("Ready").get("status") == "True"


class Quiet:
    """I14 again: in a world where nothing changes nothing is written but the Lease, and nothing is ordered or ended.

    with Quiet(world):
        world.run(hours=1)

    With a recorder, read-only calls at a provider are known.
    """

    def __init__(self, world: World, recorder: Recorder | None = None) -> None:
        self._world = world
        self._recorder = recorder
        self._from = 0

    def __enter__(self) -> Self:
        self._from = len(self._world.effects)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        loud = [str(effect) for effect in self._world.effects[self._from :] if self._is_loud(effect)]
        if error is None and loud:
            raise Violation(f"I14: {len(loud)} changing calls in a quiet world: {'; '.join(loud[:5])}")

    def _is_loud(self, effect: Effect) -> bool:
        if effect.endpoint == KUBERNETES:
            return "/leases" not in effect.path
        return self._recorder is None or self._recorder.pays(effect.endpoint, effect.method, effect.path)


def loose_ends(recorder: Recorder) -> list[str]:
    """I17, I18: after a time without faults every request was handled and is in its final state. Empty: none is not.

    One that is Ready has its one running machine and its Node; one that is over has none; a machine has an owner;
    a Node of ours has a machine.
    """
    return [*_loose_claims(recorder), *_loose_machines(recorder), *_loose_nodes(recorder)]


def _loose_claims(recorder: Recorder) -> Iterator[str]:
    for claim in recorder.claims.values():
        machines = recorder.of_uid(claim.uid)
        if not claim.phase:
            yield f"I17: no controller handled {claim.name}"
        elif claim.deleting:
            yield f"I18: {claim.name} is still being deleted ({claim.phase})"
        elif claim.phase == "Ready" and [one.machine.phase for one in machines] != [Phase.RUNNING]:
            yield f"I18: {claim.name} is Ready with {_listed(machines) or 'no machine'}"
        elif claim.phase in OVER and machines:
            yield f"I18: {claim.name} is {claim.phase} with {_listed(machines)}"


def _loose_machines(recorder: Recorder) -> Iterator[str]:
    for rented in recorder.everything():
        if recorder.owner(rented) is None:
            yield f"I18: no request owns {rented}"


def _loose_nodes(recorder: Recorder) -> Iterator[str]:
    for node in recorder.world.api.local_api.objects(NODE):
        raw = str(node["spec"].get("providerID") or "")
        token = read_token(raw.rpartition("/")[2]) if raw.startswith(PROVIDER_ID) else None
        if token is not None and not any(one.text == str(token) for one in recorder.of_uid(token.uid)):
            yield f"I18: Node {node['metadata']['name']} is left over from {token}"


def _listed(machines: list[Rented]) -> str:
    return ", ".join(str(one) for one in machines)
