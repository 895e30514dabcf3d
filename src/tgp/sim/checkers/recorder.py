"""The recorder: sees every commit, every machine and every call of one world, and notifies the checkers.

Checkers look at changes, never at the whole world: they run tens of thousands of times. What they find is kept and
raised after the step in which it happened, so that the world they accuse is still standing there to be looked at.
"""

from collections.abc import Callable
from typing import TypeAlias, TypeVar

from tgp.api.common import OWNED_PROVIDER
from tgp.api.resource import (
    CERTIFICATE_SIGNING_REQUEST,
    GPU_NODE_POOL,
    GPU_REQUEST,
    LEASE,
    NAMESPACE,
    NODE,
    POD,
    SECRET,
)
from tgp.core.model.identity import cluster_id
from tgp.core.model.token import plain_uid
from tgp.ports.http import Call, Reply, Streaming
from tgp.sim.apiserver.json_value import Json
from tgp.sim.apiserver.registry import Served
from tgp.sim.checkers.recorded import (
    PROVIDERS_FAULT,
    RecordedOrder,
    RecordedRequest,
    Rented,
    claim_of,
    mark_of,
    token_in,
)
from tgp.sim.clouds.cloud_faults import CloudVerb
from tgp.sim.clouds.machine import Phase, SimulatedMachine
from tgp.sim.clouds.simulator import Simulator
from tgp.sim.process import Host
from tgp.sim.router import Exchange, Tap
from tgp.sim.world import KUBERNETES, World

C = TypeVar("C", bound="Checker")
Place: TypeAlias = tuple[str, str]  # provider and machine
OPERATOR_NAMESPACE = "tgp-system"
LOOKING = (frozenset({CloudVerb.LIST}), frozenset({CloudVerb.LIST, CloudVerb.STATUS}))
ANSWERS = frozenset({CloudVerb.LIST, CloudVerb.STATUS, CloudVerb.TERMINATE})
TELLINGS = (
    "made",
    "turned",
    "ended",
    "unheard",
    "claimed",
    "ordered",
    "answered",
    "changing",
    "looked",
    "tried",
    "leased",
    "worked",
    "confided",
    "registered",
    "asked",
    "pooled",
    "look",
)  # what a checker can take up


class Violation(AssertionError):
    """A promise was broken. The text names the invariant, who, and when."""


class Checker:
    """One invariant. Subclasses override the events they need; the others cost nothing."""

    invariant = ""

    def __init__(self, recorder: "Recorder") -> None:
        self.recorder = recorder

    def blame(self, text: str) -> None:
        self.recorder.accuse(f"{self.invariant}: {text}")

    def made(self, rented: Rented) -> None:
        """A machine was made by a client's order."""

    def turned(self, rented: Rented, before: Phase) -> None:
        """A machine went from one phase to another."""

    def ended(self, rented: Rented) -> None:
        """A client's call ends this machine, just now."""

    def unheard(self, rented: Rented) -> None:
        """A client asked for the end of this machine, and that was lost on its way, or its provider's fault ate it."""

    def claimed(self, before: RecordedRequest | None, after: RecordedRequest | None) -> None:
        """A GPURequest was written; no `before`: made; no `after`: gone."""

    def ordered(self, order: RecordedOrder) -> None:
        """A paying call has left a process."""

    def answered(self, order: RecordedOrder, answer: Reply | Streaming | None, exchange: Exchange) -> None:
        """What the provider said to it, if anything."""

    def changing(self, exchange: Exchange) -> None:
        """A call that changes something, anywhere, has left a process."""

    def looked(self, provider: str, verb: CloudVerb, call: Call, answer: Reply | Streaming | None) -> None:
        """What a provider said to a question about its machines, or to the end of one; None: nothing was heard."""

    def tried(self, host: Host, endpoint: str, call: Call) -> None:
        """A process set out to send any call at all."""

    def leased(self, lease: Json) -> None:
        """The operator's Lease was written."""

    def worked(self, before: Json | None, after: Json | None) -> None:
        """A pod was written."""

    def confided(self, before: Json | None, after: Json | None) -> None:
        """A Secret was written."""

    def registered(self, before: Json | None, after: Json | None) -> None:
        """A Node was written; no `before`: its kubelet has come."""

    def asked(self, before: Json | None, after: Json | None) -> None:
        """A CertificateSigningRequest was written."""

    def pooled(self, before: Json | None, after: Json | None) -> None:
        """A GPUNodePool was written."""

    def look(self, now: float) -> None:
        """After each step in which something happened."""


class Recorder(Tap):
    """Made once per world, before anything is rented there; then `adopt` its providers and `call` checkers."""

    def __init__(self, world: World, *, namespace: str = OPERATOR_NAMESPACE) -> None:
        self.world = world
        self.namespace = namespace
        self.claims: dict[str, RecordedRequest] = {}  # GPURequests that exist, by uid
        self.rented: dict[str, dict[Place, Rented]] = {}  # machines of ours that are not gone, by uid
        self.unlistable: dict[str, None] = {}  # providers that a scenario keeps from being listed (their key is away)
        self.forced: dict[str, None] = {}  # uids of requests whose finalizer users took away
        self.providers: dict[str, Simulator] = {}
        self._places: dict[str, Simulator] = {}  # by endpoint
        self._all: dict[Place, Rented] = {}  # until they are gone
        self._list_failed: dict[str, bool] = {}
        self._accusations: list[str] = []
        self._orders: dict[int, RecordedOrder] = {}  # by identity of the exchange, until it is answered
        self._cluster = ""
        self._on_made: list[Callable[[Rented], None]] = []
        self._on_turned: list[Callable[[Rented, Phase], None]] = []
        self._on_ended: list[Callable[[Rented], None]] = []
        self._on_unheard: list[Callable[[Rented], None]] = []
        self._on_claimed: list[Callable[[RecordedRequest | None, RecordedRequest | None], None]] = []
        self._on_ordered: list[Callable[[RecordedOrder], None]] = []
        self._on_answered: list[Callable[[RecordedOrder, Reply | Streaming | None, Exchange], None]] = []
        self._on_changing: list[Callable[[Exchange], None]] = []
        self._on_looked: list[Callable[[str, CloudVerb, Call, Reply | Streaming | None], None]] = []
        self._on_tried: list[Callable[[Host, str, Call], None]] = []
        self._on_leased: list[Callable[[Json], None]] = []
        self._on_worked: list[Callable[[Json | None, Json | None], None]] = []
        self._on_confided: list[Callable[[Json | None, Json | None], None]] = []
        self._on_registered: list[Callable[[Json | None, Json | None], None]] = []
        self._on_asked: list[Callable[[Json | None, Json | None], None]] = []
        self._on_pooled: list[Callable[[Json | None, Json | None], None]] = []
        self._on_look: list[Callable[[float], None]] = []
        api = world.api
        self._storages = {
            api.core.registry.of(POD).storage: _notifier(self._on_worked),
            api.core.registry.of(LEASE).storage: self._lease,
            api.core.registry.of(GPU_REQUEST).storage: self._claim,
            api.core.registry.of(SECRET).storage: _notifier(self._on_confided),
            api.core.registry.of(NODE).storage: _notifier(self._on_registered),
            api.core.registry.of(CERTIFICATE_SIGNING_REQUEST).storage: _notifier(self._on_asked),
            api.core.registry.of(GPU_NODE_POOL).storage: _notifier(self._on_pooled),
        }
        for obj in api.local_api.objects(GPU_REQUEST):
            self._claim(None, obj)
        api.core.hooks.append(self._committed)
        world.network.taps.append(self)
        world.watch(self._look)

    def adopt(self, simulator: Simulator, *endpoints: str) -> None:
        """Watch what is rented there; `endpoints` are the names it is mounted under."""
        self.providers[simulator.provider] = simulator
        self._places.update(dict.fromkeys(endpoints, simulator))
        simulator.fleet.listen(lambda machine, before: self._machine(simulator, machine, before))

    def call(self, *kinds: Callable[["Recorder"], Checker]) -> None:
        """Have these invariants checked from now on."""
        for kind in kinds:
            self.add(kind(self))

    def add(self, checker: C) -> C:
        for name in TELLINGS:
            if getattr(type(checker), name) is not getattr(Checker, name):
                getattr(self, f"_on_{name}").append(getattr(checker, name))
        return checker

    def accuse(self, text: str) -> None:
        """Keep it until the step is over."""
        self._accusations.append(f"{text} [{self.now:.3f} s]")

    @property
    def accusations(self) -> tuple[str, ...]:
        return tuple(self._accusations)

    @property
    def now(self) -> float:
        return self.world.loop.time()

    @property
    def cluster(self) -> str:
        """The name of this world's cluster, as tokens carry it."""
        if not self._cluster:
            found = self.world.api.local_api.get(NAMESPACE, "", "kube-system")
            assert found is not None, "every cluster has one"
            self._cluster = cluster_id(found["metadata"]["uid"])
        return self._cluster

    def owner(self, rented: Rented) -> RecordedRequest | None:
        """Who owns it *by token*: a claim with that attempt open.

        Of duplicates the recorded, else the older one: of the same moment the first by its id.
        """
        if rented.token is None or not rented.ours:
            return None
        claim = self.claims.get(rented.token.uid)
        if claim is None or not claim.is_open(rented.text):
            return None
        duplicates = sorted(
            (one for one in self.of_uid(rented.token.uid) if one.text == rented.text),
            key=lambda one: (one.machine.created_at, one.machine.id),
        )
        noted = claim.rows[rented.text].get("instanceId")
        kept = next((one for one in duplicates if one.machine.id == noted), duplicates[0] if duplicates else rented)
        return claim if kept is rented else None

    def pays(self, endpoint: str, method: str, path: str) -> bool:
        """Does such a call at a provider make or end something? Some providers are asked by POST."""
        simulator = self._places.get(endpoint)
        return simulator is not None and simulator.verb_of(Call(method, path)) in (
            CloudVerb.LAUNCH,
            CloudVerb.TERMINATE,
        )

    def verb_at(self, exchange: Exchange, provider: str) -> CloudVerb | None:
        """What a call asks of this provider; None: it goes elsewhere."""
        simulator = self._places.get(exchange.endpoint.name)
        return simulator.verb_of(exchange.call) if simulator is not None and simulator.provider == provider else None

    def of_uid(self, uid: str) -> list[Rented]:
        """Machines of a request that are not gone, the oldest first."""
        return list(self.rented.get(uid, {}).values())

    def everything(self) -> list[Rented]:
        """All that is on the bill and carries our mark."""
        return [one for machines in self.rented.values() for one in machines.values()]

    def can_be_listed(self, rented: Rented) -> bool:
        """Could any replica see it in a list now? An invisible machine is not overdue."""
        provider, network = rented.provider, self.world.network
        if provider in self.unlistable or self._list_failed.get(provider):
            return False
        if not self.providers[provider].fleet.accounts.has_key(rented.machine.account):
            return False
        places = [place for place, simulator in self._places.items() if simulator.provider == provider]
        mounted = network.endpoints()
        if not all(place in mounted for place in (*places, KUBERNETES)):
            return False
        processes = self.world.processes
        return not processes or any(
            not any(network.is_cut_off(name, place) for place in (*places, KUBERNETES)) for name in processes
        )

    # -- what it hears -------------------------------------------------------------------------------------------------

    def tried(self, host: Host, endpoint: str, call: Call) -> None:
        for hear in self._on_tried:
            hear(host, endpoint, call)

    def written(self, exchange: Exchange) -> None:
        if not exchange.call.changes_things:
            return
        for hear in self._on_changing:
            hear(exchange)
        simulator = self._places.get(exchange.endpoint.name)
        if simulator is not None and simulator.verb_of(exchange.call) is CloudVerb.LAUNCH:
            self._ordered(simulator, exchange)

    def served(self, exchange: Exchange, answer: Reply | Streaming | None) -> None:
        order = self._orders.pop(id(exchange), None)
        if order is not None:
            for hear in self._on_answered:
                hear(order, answer, exchange)
        simulator = self._places.get(exchange.endpoint.name)
        if simulator is None:
            return
        verb = simulator.verb_of(exchange.call)
        troubled = answer is None or exchange.fault is not None or simulator.fault is not None
        troubled |= simulator.fleet.lie is not None and simulator.fleet.lie.denies
        if verb in ANSWERS:
            for notify in self._on_looked:
                notify(simulator.provider, verb, exchange.call, answer)
        if verb in LOOKING[simulator.provider == OWNED_PROVIDER]:
            self._list_failed[simulator.provider] = troubled or (answer is not None and answer.status >= 300)
        elif verb is CloudVerb.TERMINATE and troubled and self._on_unheard:
            self._unheard(simulator, exchange.call)

    def _unheard(self, simulator: Simulator, call: Call) -> None:
        """Whichever machine it is about; each provider has its own place for an id."""
        for (provider, name), rented in self._all.items():
            if provider == simulator.provider and (name in call.path or name.encode() in call.body):
                for hear in self._on_unheard:
                    hear(rented)

    def _ordered(self, simulator: Simulator, exchange: Exchange) -> None:
        host = exchange.host
        assert host is not None, "calls of visitors are not reported"
        order = RecordedOrder(simulator.provider, token_in(exchange.call), host.name, host.number, self.now)
        self._orders[id(exchange)] = order
        for hear in self._on_ordered:
            hear(order)

    def _machine(self, simulator: Simulator, machine: SimulatedMachine, before: Phase) -> None:
        if machine.foreign or machine.by_hand:
            return
        key = (simulator.provider, machine.id)
        rented = self._all.get(key)
        if rented is None:
            rented = self._all[key] = self._new(simulator, machine)
            for hear in self._on_made:
                hear(rented)
            return
        if machine.phase is Phase.ENDING and simulator.verb is CloudVerb.TERMINATE:
            for notify in self._on_ended:
                notify(rented)
        if machine.phase is Phase.GONE:
            del self._all[key]
            if rented.ours and rented.token is not None:
                del self.rented[rented.token.uid][key]
        for turned in self._on_turned:
            turned(rented, before)

    def _new(self, simulator: Simulator, machine: SimulatedMachine) -> Rented:
        token = mark_of(machine)
        ours = token is not None and token.cluster == self.cluster
        excused = simulator.fault in PROVIDERS_FAULT and simulator.verb is CloudVerb.LAUNCH
        rented = Rented(simulator.provider, machine, token, ours, self.now, excused)
        if ours and token is not None:
            self.rented.setdefault(token.uid, {})[simulator.provider, machine.id] = rented
        return rented

    def _committed(self, served: Served, before: Json | None, after: Json | None) -> None:
        notify = self._storages.get(served.storage)
        if notify is not None:
            notify(before, after)

    def _claim(self, before: Json | None, after: Json | None) -> None:
        was = self._known(before) if before is not None else None
        is_now = claim_of(after) if after is not None else None
        if was is not None:
            self.claims.pop(was.uid, None)
        if is_now is not None:
            self.claims[is_now.uid] = is_now
        for hear in self._on_claimed:
            hear(was, is_now)

    def _known(self, before: Json) -> RecordedRequest:
        known = self.claims.get(plain_uid(before["metadata"]["uid"]))
        return known if known is not None and known.obj is before else claim_of(before)

    def _lease(self, _before: Json | None, after: Json | None) -> None:
        if after is not None and after["metadata"]["namespace"] == self.namespace:
            for hear in self._on_leased:
                hear(after)

    def _look(self, _world: World) -> None:
        for look in self._on_look:
            look(self.now)
        if self._accusations:
            raise Violation("\n".join(self._accusations))


def _notifier(
    ears: list[Callable[[Json | None, Json | None], None]],
) -> Callable[[Json | None, Json | None], None]:
    def notify(before: Json | None, after: Json | None) -> None:
        for hear in ears:
            hear(before, after)

    return notify
