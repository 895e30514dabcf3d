"""Looks after GPUNodeClasses: what they refer to, what providers say of their keys, what they could buy and hold."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.controllers.boot.inspection import ClassInspector
from tgp.controllers.keys import keys_present
from tgp.controllers.market import Market
from tgp.controllers.request_index import BY_NODE_CLASS
from tgp.controllers.verdicts import Scribe, condition_of, generation_of
from tgp.core.model.conditions import Verdict
from tgp.core.model.join import JOIN_SECRET
from tgp.core.model.key import Key
from tgp.core.model.till import tills_of
from tgp.core.model.typed import Typed
from tgp.core.model.wish import PassedOver
from tgp.core.model.workload import Metadata
from tgp.core.rules.can_buy import Buying, cannot_buy, judge_buying, steady
from tgp.core.rules.class_holdings import (
    ClassHoldings,
    boots_seen,
    earlier,
    holdings_of,
    judge_holdings,
    leaving,
    spent_at,
    stake_of,
    totals,
)
from tgp.core.rules.class_market import (
    OF_THE_KEYS,
    OF_THE_MARKET,
    Standing,
    judge_market,
    judged_again_at,
    keys_tried,
    known_enough,
    nobody_sells,
    summary,
    worth_writing,
)
from tgp.core.rules.collector import Stuck, stuck_words
from tgp.core.rules.costs import class_of
from tgp.core.rules.nodeclass import OWNED, ClassSight, backend_of, could_ask, gaps_of, judge_class, not_ready
from tgp.core.rules.ranking import Ranking, rank
from tgp.core.rules.secrets import names, wanted_by
from tgp.core.rules.sources import sources_of
from tgp.core.rules.wishes import class_wish
from tgp.ports.clock import Clock
from tgp.ports.cluster import View
from tgp.ports.vault import Vault

MISFITS_SAID = 3  # reasons in a condition; more is a list
NOT_JUDGED = Verdict("CanBuy", None, "NotKnown", "")
LOOK_AGAIN_AFTER = timedelta(minutes=15)  # a vault forgets what nobody asks for; what is missing may still come


class NodeClassReconciler:
    def __init__(
        self,
        classes: View[Typed[GPUNodeClass]],
        vault: Vault,
        market: Market,
        scribe: Scribe,
        clock: Clock,
        *,
        namespace: str,
        default_backend: str,
        time_zones: frozenset[str],
        requests: View[Typed[GPURequest]] | None = None,  # None: nothing is told of what a class holds
        halted: Callable[[], Mapping[str, str]] = dict,  # tills where the collector stopped and asks, each with why
        stuck: Callable[[], Iterable[Stuck]] = tuple,  # machines that no request owns and that do not end
        inspector: ClassInspector | None = None,  # None: its machines join by themselves
        preparing: Callable[[GPUNodeClass], str] = lambda _class: "",  # what is done about images that it waits for
    ) -> None:
        self._classes = classes
        self._vault = vault
        self._market = market
        self._scribe = scribe
        self._clock = clock
        self._namespace = namespace
        self._default_backend = default_backend
        self._time_zones = time_zones
        self._requests = requests
        self._halted = halted
        self._stuck = stuck
        self._inspector = inspector
        self._preparing = preparing
        self._earlier: dict[str, int] = {}  # by class: micro-dollars spent by requests that are gone

    async def reconcile(self, key: Key) -> datetime | None:
        record = self._classes.get(key)
        if record is None:
            self._earlier.pop(key.name, None)
            return None
        if record.object is None:
            return None  # unreadable: written by a newer version, perhaps. Left alone; its view has said so already.
        machines = self._holdings(record)
        if record.deleting:
            await self._leave(record, machines)
            return None
        wanted = wanted_by(record.object, backend_of(record.object, self._default_backend))
        sight = await self._sight(record.object, names(wanted))
        now = self._clock.now()
        ranking = rank(self._market.book, class_wish(record.object, self._market.marks), now)
        standings = self._standings(record.object, ranking)
        judged = {verdict.type: verdict for verdict in judge_class(sight)}
        asked = known_enough(standings, record.status, condition_of(record, "OffersFresh"), now)
        for verdict in self._of_the_market(record, standings, ranking, asked=asked):
            if verdict.type != "CredentialsValid" or could_ask(sight):  # a key that is missing comes first
                judged[verdict.type] = verdict
        await self._inspect(sight, judged)
        unsold = nobody_sells(standings) or cannot_buy(judged.get("CanBuy", NOT_JUDGED))
        if judged["Ready"].status and judged["Ready"].reason != "Suspended" and unsold is not None:
            judged["Ready"] = unsold
        status, providers = record.status, [each.name for each in standings]
        seen = boots_seen(machines, status, providers)
        for verdict in judge_holdings(machines, record.object.spec.limits, seen, providers):
            judged[verdict.type] = verdict
        if why := self._why_halted(record.object):
            judged["SweepHalted"] = Verdict("SweepHalted", True, "TooManyAtOnce", f"{why}; see tgp doctor --orphans")
        if staying := self._staying(record.object):
            words = f"{stuck_words(staying)}; see tgp doctor --orphans"
            judged["OrphanStays"] = Verdict("OrphanStays", True, "TerminationFailing", words)
        if words := self._preparing(record.object):
            judged["ImagePreparing"] = Verdict("ImagePreparing", True, "ImagePreparing", words)
        held = status if _is_of_now(record, "OffersFresh") else {}
        parts = summary(standings, ((row.offer, row.source) for row in ranking.first_of_each_kind()), now, held, seen)
        worth = asked and worth_writing(status, parts, now)
        for name in ("CanBuy", "Ready") if not worth else ():
            if name in judged:
                judged[name] = steady(judged[name], condition_of(record, name))
        sums = totals(machines, status, now, anyway=bool(worth))
        await self._scribe.write(record, judged.values(), {**(parts if worth else {}), **sums} or None)
        again = now + LOOK_AGAIN_AFTER
        return min(again, judged_again_at(standings, now) or again)

    async def _inspect(self, sight: ClassSight, judged: dict[str, Verdict]) -> None:
        """Could its machines boot and join? What is missing for that is said with what else is missing."""
        if self._inspector is None:
            return
        found = await self._inspector.inspect(sight.node_class)
        for verdict in (found.converted, found.unchecked):
            if verdict is not None:
                judged[verdict.type] = verdict
        own = gaps_of(sight)
        missing = any(gap.reason == "SecretMissing" for gap in own)  # without it the mesh could not be asked
        gaps = (*own, *(gap for gap in found.gaps if not (missing and gap.reason == "MeshRefused")))
        if gaps and (own or judged["Ready"].status):
            judged["Ready"] = not_ready(gaps)

    async def _leave(self, record: Typed[GPUNodeClass], machines: ClassHoldings) -> None:
        """While its machines keep it: what it waits for, beside what was said last of everything else."""
        verdict = leaving(machines)
        if verdict is None:
            return
        stands = (condition_of(record, name) for name in sorted(OWNED - {verdict.type}))
        said = [verdict, *(each for each in stands if each is not None)]
        await self._scribe.write(record, said, totals(machines, record.status, self._clock.now()) or None)

    def _why_halted(self, node_class: GPUNodeClass) -> str:
        halted = self._halted()
        return next((halted[name] for name in _tills(node_class) if name in halted), "")

    def _staying(self, node_class: GPUNodeClass) -> list[Stuck]:
        tills = set(_tills(node_class))
        return [one for one in self._stuck() if one.till in tills]

    def _holdings(self, record: Typed[GPUNodeClass]) -> ClassHoldings:
        if self._requests is None:
            return ClassHoldings()
        name = record.key.name
        present = holdings_of(name, self._requests.having(BY_NODE_CLASS, name))
        if name not in self._earlier:
            self._earlier[name] = earlier(present, record.status)
        return ClassHoldings(present.stakes, self._earlier[name])

    async def _sight(self, node_class: GPUNodeClass, secrets: Iterable[str]) -> ClassSight:
        """Of Secrets only the names of their keys: values are not looked at here."""
        present, forbidden = await keys_present(secrets, self._vault)
        return ClassSight(node_class, present, self._namespace, self._default_backend, self._time_zones, forbidden)

    def _of_the_market(
        self, record: Typed[GPUNodeClass], standings: tuple[Standing, ...], ranking: Ranking, *, asked: bool
    ) -> Iterable[Verdict]:
        """Fresh verdicts, or what an earlier process found out; keys may be judged before a long listing ends."""
        assert record.object is not None
        misfits = [str(reason) for reason in ranking.passed if reason is not PassedOver.NOT_IN_CLASS]
        now = self._clock.now()
        fresh = [
            *judge_market(record.object, standings, misfits[:MISFITS_SAID], now),
            judge_buying(Buying(ranking.wish, standings, ranking, self._market.book, now)),
        ]
        if asked:
            return fresh
        kept = OF_THE_MARKET - OF_THE_KEYS if keys_tried(standings) else OF_THE_MARKET
        stands = (condition_of(record, name) for name in sorted(kept) if name != "CanBuy" or _is_of_now(record, name))
        return [
            *(verdict for verdict in fresh if verdict.type not in kept),
            *(verdict for verdict in stands if verdict is not None),
        ]

    def _standings(self, node_class: GPUNodeClass, ranking: Ranking) -> tuple[Standing, ...]:
        market = self._market
        fitting = ranking.by_source
        return tuple(
            Standing(
                name,
                source,
                market.sellers.get(source.name),
                market.book.state(source.name),
                fitting.get(source.name, 0),
            )
            for name, source in sources_of(node_class).items()
        )

    def referring_to(self, old: Metadata | None, new: Metadata | None) -> Iterable[Key]:
        """Classes that a change of this Secret concerns."""
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        for record in self._classes.values():
            if record.object is None:
                continue
            wanted = wanted_by(record.object, backend_of(record.object, self._default_backend))
            joining = self._inspector is not None and changed.key.name == JOIN_SECRET
            if joining or changed.key.name in names(wanted):
                yield record.key

    def holding(self, old: Typed[GPURequest] | None, new: Typed[GPURequest] | None) -> Iterable[Key]:
        """Classes for which a change of this request means something."""
        if new is None and old is not None and (stake := stake_of(old)) is not None and class_of(old) in self._earlier:
            self._earlier[class_of(old)] += spent_at(stake, self._clock.now())
        before, after = (None if each is None else (class_of(each), stake_of(each)) for each in (old, new))
        if before == after:
            return []
        return [
            Key("", name) for name in dict.fromkeys(each[0] for each in (before, after) if each is not None) if name
        ]

    def halted_at(self, _old: Metadata | None, _new: Metadata | None) -> Iterable[Key]:
        """A till was looked at: where the collector stops or goes on, or a machine does not end, its classes say so."""
        news = bool(self._halted() or self._stuck())
        for record in self._classes.values():
            told = any(condition_of(record, name) is not None for name in ("SweepHalted", "OrphanStays"))
            if record.object is not None and (news or told):
                yield record.key

    def selling_from(self, old: Metadata | None, new: Metadata | None) -> Iterable[Key]:
        """Classes that buy from this source."""
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        for record in self._classes.values():
            if record.object is not None and changed.key.name in {
                source.name for source in sources_of(record.object).values()
            }:
                yield record.key


def _is_of_now(record: Typed[GPUNodeClass], name: str) -> bool:
    """Was it judged by the spec as it is?"""
    return generation_of(record, name) == record.generation


def _tills(node_class: GPUNodeClass) -> list[str]:
    return [till.name for source in sources_of(node_class).values() for till in tills_of(source)]
