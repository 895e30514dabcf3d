"""Reconciles GPUNodeClasses: their references, the state of their keys, what they could buy and what they hold."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.controllers.joining.class_preflight import ClassPreflightChecker
from tgp.controllers.market.credentials import present_keys
from tgp.controllers.market.reconciler import MarketState
from tgp.controllers.requests.indexes import BY_NODE_CLASS
from tgp.controllers.status_writer import StatusWriter, condition_of, generation_of
from tgp.core.classes.can_buy import Buying, cannot_buy, judge_buying, steady
from tgp.core.classes.machines_status import (
    ClassMachines,
    boots_seen,
    earlier,
    judge_machines,
    leaving,
    machine_count_of,
    machines_of,
    spent_at,
    totals,
)
from tgp.core.classes.market_status import (
    OF_THE_KEYS,
    OF_THE_MARKET,
    ProviderStanding,
    judge_market,
    judged_again_at,
    keys_tried,
    known_enough,
    no_seller,
    summary,
    worth_writing,
)
from tgp.core.classes.nodeclass import OWNED, ClassObservation, could_ask, gaps_of, judge_class, not_ready
from tgp.core.inventory.orphans import Stuck, stuck_words
from tgp.core.joining.mesh.selection import backend_of
from tgp.core.market.query import query_for_class
from tgp.core.market.ranking import Ranking, rank
from tgp.core.market.sources import sources_of
from tgp.core.model.account_access import accesses_of
from tgp.core.model.class_secrets import names, wanted_by
from tgp.core.model.conditions import ConditionUpdate
from tgp.core.model.costs import class_of
from tgp.core.model.join import JOIN_SECRET
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer_query import RejectReason
from tgp.core.model.sold_gpus import sold
from tgp.core.model.workload import Metadata
from tgp.ports.clock import Clock
from tgp.ports.clouds import Clouds
from tgp.ports.cluster import View
from tgp.ports.secret_reader import SecretReader

MISFITS_SAID = 3  # reasons in a condition
NOT_JUDGED = ConditionUpdate("CanBuy", None, "NotKnown", "")
# the secret reader drops Secrets that are not read for a while; a missing one may still be created
LOOK_AGAIN_AFTER = timedelta(minutes=15)


class NodeClassReconciler:
    def __init__(
        self,
        classes: View[KubeObject[GPUNodeClass]],
        secret_reader: SecretReader,
        market: MarketState,
        status_writer: StatusWriter,
        clock: Clock,
        *,
        clouds: Clouds,
        namespace: str,
        default_backend: str,
        time_zones: frozenset[str],
        requests: View[KubeObject[GPURequest]] | None = None,  # None: a class's machines are not reported
        halted: Callable[[], Mapping[str, str]] = dict,  # accounts where the collector stopped, each with the cause
        stuck: Callable[[], Iterable[Stuck]] = tuple,  # machines that no request owns and whose termination fails
        inspector: ClassPreflightChecker | None = None,  # None: its machines join without the operator
        preparing: Callable[[GPUNodeClass], str] = lambda _class: "",  # progress of the images that it waits for
    ) -> None:
        self._classes = classes
        self._secret_reader = secret_reader
        self._market = market
        self._clouds = clouds
        self._status_writer = status_writer
        self._clock = clock
        self._namespace = namespace
        self._default_backend = default_backend
        self._time_zones = time_zones
        self._requests = requests
        self._halted = halted
        self._stuck = stuck
        self._inspector = inspector
        self._preparing = preparing
        self._earlier: dict[str, int] = {}  # by class: micro-dollars spent by deleted requests

    async def reconcile(self, key: ObjectKey) -> datetime | None:
        record = self._classes.get(key)
        if record is None:
            self._earlier.pop(key.name, None)
            return None
        if record.object is None:
            return None  # unreadable: written by a newer version, perhaps. Skipped; the store has reported it already.
        machines = self._holdings(record)
        if record.deleting:
            await self._leave(record, machines)
            return None
        wanted = wanted_by(record.object, backend_of(record.object, self._default_backend))
        observation = await self._observation(record.object, names(wanted))
        now = self._clock.now()
        ranking = rank(self._market.book, query_for_class(record.object, self._market.cooldowns), now)
        standings = self._standings(record.object, ranking)
        judged = {verdict.type: verdict for verdict in judge_class(observation)}
        asked = known_enough(standings, record.status, condition_of(record, "OffersFresh"), now)
        for verdict in self._of_the_market(record, standings, ranking, asked=asked):
            if verdict.type != "CredentialsValid" or could_ask(observation):  # a key that is missing comes first
                judged[verdict.type] = verdict
        await self._inspect(observation, judged)
        unsold = no_seller(standings) or cannot_buy(judged.get("CanBuy", NOT_JUDGED))
        if judged["Ready"].status and judged["Ready"].reason != "Suspended" and unsold is not None:
            judged["Ready"] = unsold
        status, providers = record.status, [each.name for each in standings]
        seen = boots_seen(machines, status, providers)
        for verdict in judge_machines(machines, record.object.spec.limits, seen, providers):
            judged[verdict.type] = verdict
        if why := self._why_halted(record.object):
            judged["SweepHalted"] = ConditionUpdate(
                "SweepHalted", True, "TooManyAtOnce", f"{why}; see tgp doctor --orphans"
            )
        if staying := self._staying(record.object):
            words = f"{stuck_words(staying)}; see tgp doctor --orphans"
            judged["OrphanTerminationFailing"] = ConditionUpdate(
                "OrphanTerminationFailing", True, "TerminationFailing", words
            )
        if words := self._preparing(record.object):
            judged["ImagePreparing"] = ConditionUpdate("ImagePreparing", True, "ImagePreparing", words)
        held = status if _is_of_now(record, "OffersFresh") else {}
        parts = summary(standings, ((row.offer, row.source) for row in ranking.first_of_each_kind()), now, held, seen)
        worth = asked and worth_writing(status, parts, now)
        for name in ("CanBuy", "Ready") if not worth else ():
            if name in judged:
                judged[name] = steady(judged[name], condition_of(record, name))
        sums = totals(machines, status, now, anyway=bool(worth))
        await self._status_writer.write(record, judged.values(), {**(parts if worth else {}), **sums} or None)
        again = now + LOOK_AGAIN_AFTER
        return min(again, judged_again_at(standings, now) or again)

    async def _inspect(self, observation: ClassObservation, judged: dict[str, ConditionUpdate]) -> None:
        """Could its machines boot and join? What is missing for that is reported with what else is missing."""
        if self._inspector is None:
            return
        found = await self._inspector.inspect(observation.node_class)
        for verdict in (found.converted, found.unchecked):
            if verdict is not None:
                judged[verdict.type] = verdict
        own = gaps_of(observation)
        missing = any(gap.reason == "SecretMissing" for gap in own)  # without it the mesh could not be checked
        gaps = (*own, *(gap for gap in found.gaps if not (missing and gap.reason == "MeshRefused")))
        if gaps and (own or judged["Ready"].status):
            judged["Ready"] = not_ready(gaps)

    async def _leave(self, record: KubeObject[GPUNodeClass], machines: ClassMachines) -> None:
        """While machines delay the deletion: what it waits for, beside the last conditions of everything else."""
        verdict = leaving(machines)
        if verdict is None:
            return
        stands = (condition_of(record, name) for name in sorted(OWNED - {verdict.type}))
        said = [verdict, *(each for each in stands if each is not None)]
        await self._status_writer.write(record, said, totals(machines, record.status, self._clock.now()) or None)

    def _why_halted(self, node_class: GPUNodeClass) -> str:
        halted = self._halted()
        return next((halted[name] for name in _accesses(node_class) if name in halted), "")

    def _staying(self, node_class: GPUNodeClass) -> list[Stuck]:
        accesses = set(_accesses(node_class))
        return [one for one in self._stuck() if one.access in accesses]

    def _holdings(self, record: KubeObject[GPUNodeClass]) -> ClassMachines:
        if self._requests is None:
            return ClassMachines()
        name = record.key.name
        present = machines_of(name, self._requests.by_index(BY_NODE_CLASS, name))
        if name not in self._earlier:
            self._earlier[name] = earlier(present, record.status)
        return ClassMachines(present.machine_counts, self._earlier[name])

    async def _observation(self, node_class: GPUNodeClass, secrets: Iterable[str]) -> ClassObservation:
        """Of Secrets only the names of their keys: values are not read here."""
        present, forbidden = await present_keys(secrets, self._secret_reader)
        return ClassObservation(
            node_class, present, self._namespace, self._default_backend, self._time_zones, forbidden
        )

    def _of_the_market(
        self,
        record: KubeObject[GPUNodeClass],
        standings: tuple[ProviderStanding, ...],
        ranking: Ranking,
        *,
        asked: bool,
    ) -> Iterable[ConditionUpdate]:
        """Fresh conditions, or those of an earlier process; keys may be judged before a long listing ends."""
        assert record.object is not None
        misfits = [str(reason) for reason in ranking.passed if reason is not RejectReason.NOT_IN_CLASS]
        now = self._clock.now()
        boots = {} if len(ranking) else {name: self._clouds.facts(name).boot for name in sold()}
        fresh = [
            *judge_market(record.object, standings, misfits[:MISFITS_SAID], now),
            judge_buying(Buying(ranking.query, standings, ranking, self._market.book, boots, now)),
        ]
        if asked:
            return fresh
        kept = OF_THE_MARKET - OF_THE_KEYS if keys_tried(standings) else OF_THE_MARKET
        stands = (condition_of(record, name) for name in sorted(kept) if name != "CanBuy" or _is_of_now(record, name))
        return [
            *(verdict for verdict in fresh if verdict.type not in kept),
            *(verdict for verdict in stands if verdict is not None),
        ]

    def _standings(self, node_class: GPUNodeClass, ranking: Ranking) -> tuple[ProviderStanding, ...]:
        market = self._market
        fitting = ranking.by_source
        return tuple(
            ProviderStanding(
                name,
                source,
                market.source_statuses.get(source.name),
                market.book.state(source.name),
                fitting.get(source.name, 0),
            )
            for name, source in sources_of(node_class).items()
        )

    def referring_to(self, old: Metadata | None, new: Metadata | None) -> Iterable[ObjectKey]:
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

    def holding(self, old: KubeObject[GPURequest] | None, new: KubeObject[GPURequest] | None) -> Iterable[ObjectKey]:
        """Classes for which a change of this request means something."""
        if (
            new is None
            and old is not None
            and (machine_count := machine_count_of(old)) is not None
            and class_of(old) in self._earlier
        ):
            self._earlier[class_of(old)] += spent_at(machine_count, self._clock.now())
        before, after = (None if each is None else (class_of(each), machine_count_of(each)) for each in (old, new))
        if before == after:
            return []
        return [
            ObjectKey("", name)
            for name in dict.fromkeys(each[0] for each in (before, after) if each is not None)
            if name
        ]

    def halted_at(self, _old: Metadata | None, _new: Metadata | None) -> Iterable[ObjectKey]:
        """An account was checked: if the collector stops or resumes, or a termination fails, its classes report it."""
        news = bool(self._halted() or self._stuck())
        for record in self._classes.values():
            conditions = ("SweepHalted", "OrphanTerminationFailing")
            reported = any(condition_of(record, name) is not None for name in conditions)
            if record.object is not None and (news or reported):
                yield record.key

    def selling_from(self, old: Metadata | None, new: Metadata | None) -> Iterable[ObjectKey]:
        """Classes that buy from this source."""
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        for record in self._classes.values():
            if record.object is not None and changed.key.name in {
                source.name for source in sources_of(record.object).values()
            }:
                yield record.key


def _is_of_now(record: KubeObject[GPUNodeClass], name: str) -> bool:
    """Was it computed from the current spec?"""
    return generation_of(record, name) == record.generation


def _accesses(node_class: GPUNodeClass) -> list[str]:
    return [access.name for source in sources_of(node_class).values() for access in accesses_of(source)]
