"""The invariants about money: I1 to I9, and I28."""

from dataclasses import dataclass, field
from typing import Any

from tgp.api.field_error import Invalid
from tgp.api.quantity import milli
from tgp.api.resource import GPU_NODE_CLASS, GPU_NODE_POOL, NAMESPACE, NODE
from tgp.api.values import microusd, usd
from tgp.core.model.hold import HOLD
from tgp.core.model.token import read_token
from tgp.ports.http import Reply, Streaming
from tgp.sim.apiserver.json_value import Json
from tgp.sim.checkers.leader_terms import BRIEF, CountedWait, LeaderTerms
from tgp.sim.checkers.recorded import RecordedOrder, RecordedRequest, Rented, is_ready
from tgp.sim.checkers.recorder import Checker, Recorder
from tgp.sim.clouds.machine import Phase
from tgp.sim.faults import Fault
from tgp.sim.router import Exchange

ORPHANED_FOR = 300.0  # seconds that an orphaned machine may stay, besides its provider's own time to stop it
SETTLE = 300.0  # seconds for a second machine that was not ordered to be seen and terminated
MOST_ORDERS = 5  # of one request; a machine that was lost after it served gives it another one
BLINK = 3.0  # seconds for which the last look before an order is good: reads shared for one, and the way out
GPU, CPU, MEMORY = "nvidia.com/gpu", "cpu", "memory"


@dataclass(slots=True)
class _Pair:
    older: Rented
    newer: Rented
    wait: CountedWait = field(default_factory=CountedWait)  # while both could have been seen and neither was ending

    @property
    def is_over(self) -> bool:
        return not (self.older.alive and self.newer.alive)

    @property
    def is_ending(self) -> bool:
        return Phase.ENDING in (self.older.machine.phase, self.newer.machine.phase)


class OneMachine(Checker):
    """I1: for one request there is never more than one machine on the bill, not for a second.

    Where a provider made two for one order, hid one for longer than it ever does, or denied it while no Node showed
    it, one of them is terminated within the settle window, by leaders who stay.
    """

    invariant = "I1"

    def __init__(self, recorder: Recorder, settle: float = SETTLE) -> None:
        super().__init__(recorder)
        self._settle = settle
        self.duplicates = 0
        self._tolerated: list[_Pair] = []
        self._terms = LeaderTerms()
        self._looked_at = recorder.now

    def leased(self, lease: Json) -> None:
        self.look(self.recorder.now)  # what has passed until now is the former leader's
        self._terms.held(str(lease["spec"].get("holderIdentity") or ""), self.recorder.now)

    def made(self, rented: Rented) -> None:
        for other in self.recorder.of_uid(rented.token.uid) if rented.token is not None else ():
            if other is rented:
                continue
            if rented.excused or other.excused or other.denied:
                self._tolerated.append(_Pair(other, rented))
            else:
                self.duplicates += 1
                self.blame(f"two machines for one request: {other} and {rented}")

    def look(self, now: float) -> None:
        passed, self._looked_at = now - self._looked_at, now
        for pair in self._tolerated:
            if pair.is_over or pair.is_ending or not self._both_show(pair):
                continue
            age = self._terms.passed(pair.wait, passed)
            if age > self._settle:
                self.blame(f"two machines for one request, for {age:.0f} s now: {pair.older} and {pair.newer}")
        if self._tolerated:
            self._tolerated = [pair for pair in self._tolerated if not pair.is_over]

    def _both_show(self, pair: _Pair) -> bool:
        present = self.recorder.world.clock.now()
        return all(
            one.machine.visible_at <= present and self.recorder.can_be_listed(one) for one in (pair.older, pair.newer)
        )


@dataclass(slots=True)
class _Orphan:
    rented: Rented
    wait: CountedWait = field(default_factory=CountedWait)  # while it could have been seen and was not ending


class NoOrphan(Checker):
    """I2: a machine that no request owns by token is terminated within 300 s, plus the time its provider takes.

    The clock stands while the provider cannot be listed, or hides the machine for longer than it ever does, and begins
    again where a termination is lost on its way or has no effect at the provider. Leaders who are gone within a minute
    are not counted.
    `strict`: both are; only for fault rates of real days.
    """

    invariant = "I2"

    def __init__(self, recorder: Recorder, *, strict: bool = False) -> None:
        super().__init__(recorder)
        self._strict = strict
        self.oldest = 0.0  # the greatest age that was ever reached
        self._orphans: dict[int, _Orphan] = {}
        self._terms = LeaderTerms(0.0 if strict else BRIEF)
        self._looked_at = recorder.now

    def leased(self, lease: Json) -> None:
        self.look(self.recorder.now)  # what has passed until now is the former leader's
        self._terms.held(str(lease["spec"].get("holderIdentity") or ""), self.recorder.now)

    def made(self, rented: Rented) -> None:
        self._consider(rented)

    def turned(self, rented: Rented, before: Phase) -> None:  # noqa: ARG002 - whatever it was
        if not rented.alive:
            self._orphans.pop(id(rented), None)
            if rented.token is not None:
                self._consider_all(rented.token.uid)  # a duplicate may have become the owned one

    def unheard(self, rented: Rented) -> None:
        """The operator acted in time; it has to act again."""
        orphan = self._orphans.get(id(rented))
        if orphan is not None and not self._strict:
            orphan.wait = CountedWait()

    def claimed(self, before: RecordedRequest | None, after: RecordedRequest | None) -> None:
        claim = after or before
        assert claim is not None, "a commit is about something"
        self._consider_all(claim.uid)

    def look(self, now: float) -> None:
        passed, self._looked_at = now - self._looked_at, now
        for orphan in self._orphans.values():
            rented = orphan.rented
            if rented.machine.phase is Phase.ENDING or not self.recorder.can_be_listed(rented) or self._hidden(rented):
                continue
            age = self._terms.passed(orphan.wait, passed)
            self.oldest = max(self.oldest, age)
            if age > ORPHANED_FOR:
                self.blame(f"no request owns {rented}, for {age:.0f} s now")

    def _hidden(self, rented: Rented) -> bool:
        """Hidden by its provider, for longer than it ever does: an invisible machine is not overdue."""
        return rented.excused and rented.machine.visible_at > self.recorder.world.clock.now()

    def _consider_all(self, uid: str) -> None:
        for rented in self.recorder.of_uid(uid):
            self._consider(rented)

    def _consider(self, rented: Rented) -> None:
        if not rented.ours:
            return
        if self.recorder.owner(rented) is not None:
            self._orphans.pop(id(rented), None)
        elif id(rented) not in self._orphans:
            self._orphans[id(rented)] = _Orphan(rented)


@dataclass(frozen=True, slots=True)
class _Weight:
    """What one attempt counts for."""

    microusd: int = 0
    amounts: tuple[tuple[str, int], ...] = ()  # in thousandths


class WithinLimits(Checker):
    """I3: what a class or a pool has live, reserved or unknown never exceeds its limits, at the price of the order."""

    invariant = "I3"

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder)
        self._held: dict[str, dict[str, _Weight]] = {}  # by class and by pool, by token
        self._groups: dict[str, tuple[str, ...]] = {}  # of every attempt there was: its class, and its pool

    def claimed(self, before: RecordedRequest | None, after: RecordedRequest | None) -> None:
        for token in before.rows if before is not None else ():
            if after is None or not after.is_open(token):
                self._release(token)
        if after is not None and after.node_class:
            new = [token for token, row in after.open_rows() if self._reserve(after, token, row)]
            for group in self._groups[new[0]] if new else ():
                self._judge(group)

    def _reserve(self, claim: RecordedRequest, token: str, row: Json) -> bool:
        """Is it new?"""
        if token in self._groups:
            return False
        self._groups[token] = _groups_of(claim)
        for group in self._groups[token]:
            self._held.setdefault(group, {})[token] = _weight_of(row)
        return True

    def turned(self, rented: Rented, before: Phase) -> None:  # noqa: ARG002 - whatever it was
        if not rented.alive and rented.token is not None:
            claim = self.recorder.claims.get(rented.token.uid)
            if claim is None or not claim.is_open(rented.text):
                self._release(rented.text)

    def _release(self, token: str) -> None:
        """Unless its machine is still there: then it counts on, whatever is written."""
        read = read_token(token)
        machines = self.recorder.of_uid(read.uid) if read is not None else ()
        if not any(one.text == token and not one.excused for one in machines):
            for group in self._groups.get(token, ()):
                self._held[group].pop(token, None)

    def _judge(self, group: str) -> None:
        limits, held = self._limits_of(group), self._held[group]
        if (most := limits.get("maxNodes")) is not None and len(held) > most:
            self.blame(f"{group} has {len(held)} machines, at most {most} are allowed: {', '.join(held)}")
        cost = sum(weight.microusd for weight in held.values())
        if (dollars := limits.get("maxHourlyCost")) is not None and cost > microusd(str(dollars), "maxHourlyCost"):
            self.blame(f"{group} costs ${usd(cost)} an hour, at most ${dollars} is allowed: {', '.join(held)}")
        for resource, allowed in (limits.get("resources") or {}).items():
            total = sum(dict(weight.amounts).get(resource, 0) for weight in held.values())
            if total > milli(allowed):
                self.blame(f"{group} has {total / 1000:g} {resource}, at most {allowed} is allowed")

    def _limits_of(self, group: str) -> Json:
        kind, _, name = group.partition(" ")
        namespace, _, bare = name.rpartition("/")
        found = self.recorder.world.api.local_api.get(
            GPU_NODE_CLASS if kind == "class" else GPU_NODE_POOL, namespace, bare
        )
        limits: Json = (found or {"spec": {}})["spec"].get("limits") or {}
        return limits


def _groups_of(claim: RecordedRequest) -> tuple[str, ...]:
    """Its class, and the pool that created it."""
    meta = claim.obj["metadata"]
    owners = (owner for owner in meta.get("ownerReferences") or () if owner.get("controller"))
    pools = (f"pool {meta['namespace']}/{owner['name']}" for owner in owners if owner["kind"] == GPU_NODE_POOL.kind)
    return (f"class {claim.node_class}", *pools)


def _weight_of(row: Json) -> _Weight:
    offer = row.get("offer") or {}
    amounts = ((GPU, offer.get("gpuCount")), (CPU, offer.get("vcpus")), (MEMORY, offer.get("memoryGiB")))
    scaled = tuple(
        (name, int(amount) * 1000 * (2**30 if name == MEMORY else 1)) for name, amount in amounts if amount is not None
    )
    return _Weight(price_of(row) or 0, (*scaled, ("nodes", 1000)))


def price_of(row: Json) -> int | None:
    """What an attempt was ordered at; None: not recorded, or unreadable."""
    raw = (row.get("offer") or {}).get("hourlyPrice")
    try:
        return None if raw is None else microusd(str(raw), "hourlyPrice")
    except Invalid:
        return None


class WithinPrice(Checker):
    """I4: nothing is ordered above the request's own ceiling, and nothing whose price was not written down."""

    invariant = "I4"

    def ordered(self, order: RecordedOrder) -> None:
        claim = self.recorder.claims.get(order.token.uid) if order.token is not None else None
        row = claim.rows.get(str(order.token)) if claim is not None else None
        if claim is None or row is None:
            return  # other invariants speak of those
        price, cap = price_of(row), claim.cap_microusd
        if price is None:
            self.blame(f"{order} for {claim.name} at no price")
        elif cap is not None and price > cap:
            self.blame(f"{order} for {claim.name} at ${usd(price)} an hour, above its ${usd(cap)}")


class Findable(Checker):
    """I5: every machine that we order can be found from its provider's lists alone: it carries a token of ours."""

    invariant = "I5"

    def made(self, rented: Rented) -> None:
        if rented.token is None:
            self.blame(f"no mark of ours is on {rented}")


class OneOrderPerAttempt(Checker):
    """I6: an attempt is on paper before it is ordered, is ordered once, and only after all earlier ones are over."""

    invariant = "I6"

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder)
        self.orders = 0
        self._ordered: dict[str, str] = {}  # token → who ordered it, unless that was refused for certain

    def ordered(self, order: RecordedOrder) -> None:
        self.orders += 1
        if order.token is None:
            self.blame(f"{order}: no list could show the machine it creates")
            return
        text = str(order.token)
        if text in self._ordered:
            self.blame(f"{order}, which was ordered before: {self._ordered[text]}")
        self._ordered[text] = str(order)
        claim = self.recorder.claims.get(order.token.uid)
        if claim is None:
            return  # I16's
        if not claim.is_open(text):
            self.blame(f"{order} for {claim.name}, where no such attempt is open")
        earlier = [token for token, row in claim.open_rows() if row.get("number", 0) < order.token.attempt]
        if earlier:
            self.blame(f"{order} for {claim.name} while {', '.join(earlier)} is not over")

    def answered(self, order: RecordedOrder, answer: Reply | Streaming | None, exchange: Exchange) -> None:
        """What was refused for certain was never ordered: the same attempt may be tried again."""
        if order.token is not None and _is_refusal(self.recorder, order, answer, exchange):
            self._ordered.pop(str(order.token), None)


def _is_refusal(recorder: Recorder, order: RecordedOrder, answer: Reply | Streaming | None, exchange: Exchange) -> bool:
    """Did the provider say no, and was nothing made? Whether its client heard and understood it is another matter."""
    said_no = answer is not None and 400 <= answer.status < 500 and exchange.fault in (None, Fault.BUSY)
    made = order.token is not None and any(one.text == str(order.token) for one in recorder.of_uid(order.token.uid))
    return said_no and not made


class BoundedOrders(Checker):
    """I7: a request that never gets a usable machine stops trying: five orders, and one more for each machine lost.

    An order that was refused for certain cost nothing and is not counted: the next offer may be had.
    """

    invariant = "I7"

    def __init__(self, recorder: Recorder, most: int = MOST_ORDERS) -> None:
        super().__init__(recorder)
        self._most = most
        self._orders: dict[str, int] = {}
        self._lost: dict[str, dict[str, None]] = {}

    def claimed(self, before: RecordedRequest | None, after: RecordedRequest | None) -> None:  # noqa: ARG002 - only what is there now
        for token, row in after.rows.items() if after is not None else ():
            if row.get("outcome") == "Lost" and after is not None:
                self._lost.setdefault(after.uid, {})[token] = None

    def ordered(self, order: RecordedOrder) -> None:
        if order.token is None:
            return
        uid = order.token.uid
        self._orders[uid] = self._orders.get(uid, 0) + 1
        allowed = self._most + len(self._lost.get(uid, {}))
        if self._orders[uid] > allowed:
            self.blame(f"{order}, the {self._orders[uid]}th for that request; {allowed} are enough")

    def answered(self, order: RecordedOrder, answer: Reply | Streaming | None, exchange: Exchange) -> None:
        if order.token is not None and _is_refusal(self.recorder, order, answer, exchange):
            self._orders[order.token.uid] -= 1


class NothingAfterStop(Checker):
    """I28: once a hold, a suspend or a delete is committed, no order's bytes leave, but for a last look's blink."""

    invariant = "I28"

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder)
        registry = recorder.world.api.core.registry
        self._storages = {registry.of(kind).storage: kind for kind in (NAMESPACE, GPU_NODE_CLASS)}
        self._stopped: dict[str, float] = {}  # what was stopped, and when
        recorder.world.api.core.hooks.append(self._committed)

    def claimed(self, before: RecordedRequest | None, after: RecordedRequest | None) -> None:
        if after is not None and after.deleting:
            self._stopped.setdefault(after.uid, self.recorder.now)
        elif before is not None and after is None:
            self._stopped.pop(before.uid, None)

    def ordered(self, order: RecordedOrder) -> None:
        claim = self.recorder.claims.get(order.token.uid) if order.token is not None else None
        if claim is None:
            return  # I16's
        for what in (claim.uid, f"class {claim.node_class}", HOLD):
            since = self._stopped.get(what)
            if since is not None and self.recorder.now - since > BLINK:
                self.blame(f"{order} for {claim.name}, {self.recorder.now - since:.1f} s after it was stopped ({what})")

    def _committed(self, served: Any, _before: Json | None, after: Json | None) -> None:
        kind = self._storages.get(served.storage)
        if kind is None or after is None:
            return
        metadata = after["metadata"]
        if kind is GPU_NODE_CLASS:
            stopped, what = bool(after["spec"].get("suspend")), f"class {metadata['name']}"
        elif metadata["name"] == self.recorder.namespace:
            stopped, what = HOLD in (metadata.get("annotations") or {}), HOLD
        else:
            return
        if stopped:
            self._stopped.setdefault(what, self.recorder.now)
        else:
            self._stopped.pop(what, None)


class EndsOnlyOurs(Checker):
    """I8: only machines that carry our cluster's name and a request's uid are ever ended."""

    invariant = "I8"

    def ended(self, rented: Rented) -> None:
        if not rented.ours:
            self.blame(f"we ended {rented}, which is not ours")


class NoEndWithoutReason(Checker):
    """I9: nothing is concluded from missing data.

    A machine that a request owns is terminated only once that request has recorded why; and no attempt is declared
    over while its machine is there to be seen: by its provider, or by its Node.
    """

    invariant = "I9"

    def ended(self, rented: Rented) -> None:
        claim = self.recorder.owner(rented)
        if claim is not None and not claim.is_ending:
            self.blame(f"{rented} was ended, and {claim.name} does not say why")

    def claimed(self, before: RecordedRequest | None, after: RecordedRequest | None) -> None:
        for token in before.rows if before is not None else ():
            closed = before is not None and before.is_open(token) and after is not None and token in after.rows
            if closed and after is not None and not after.is_open(token):
                for rented in self.recorder.of_uid(after.uid):
                    if rented.text != token or rented.excused:
                        continue
                    rented.denied = self._is_denied(rented, after)
                    if not rented.denied:
                        said = after.rows[token].get("outcome")
                        self.blame(f"{after.name} declares an attempt over ({said}) while {rented} is there")

    def _is_denied(self, rented: Rented, claim: RecordedRequest) -> bool:
        lie = self.recorder.providers[rented.provider].fleet.lie
        node = self.recorder.world.api.local_api.get(NODE, "", claim.node)
        return lie is not None and lie.denies and not is_ready(node)
