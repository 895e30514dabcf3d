"""Looks after GPUNodeClasses: what they refer to, what their providers say of the keys, and what they could buy."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from tgp.api.nodeclass import GPUNodeClass
from tgp.controllers.market import Market
from tgp.controllers.verdicts import Scribe, condition_of
from tgp.core.model.conditions import Verdict
from tgp.core.model.key import Key
from tgp.core.model.typed import Typed
from tgp.core.model.wish import PassedOver
from tgp.core.model.workload import Metadata
from tgp.core.rules.class_market import OF_THE_MARKET, Standing, judge_market, summary, worth_writing
from tgp.core.rules.nodeclass import ClassSight, backend_of, could_ask, judge_class
from tgp.core.rules.ranking import Ranking, rank
from tgp.core.rules.secrets import names, wanted_by
from tgp.core.rules.sources import sources_of
from tgp.core.rules.wishes import class_wish
from tgp.ports.clock import Clock
from tgp.ports.cluster import View
from tgp.ports.vault import Vault

MISFITS_SAID = 3  # reasons in a condition; more is a list


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
    ) -> None:
        self._classes = classes
        self._vault = vault
        self._market = market
        self._scribe = scribe
        self._clock = clock
        self._namespace = namespace
        self._default_backend = default_backend
        self._time_zones = time_zones

    async def reconcile(self, key: Key) -> datetime | None:
        record = self._classes.get(key)
        if record is None or record.deleting or record.object is None:
            return None  # unreadable: written by a newer version, perhaps. Left alone; its view has said so already.
        wanted = wanted_by(record.object, backend_of(record.object, self._default_backend))
        present = {name: keys for name in names(wanted) if (keys := await self._keys_of(name)) is not None}
        sight = ClassSight(record.object, present, self._namespace, self._default_backend, self._time_zones)
        now = self._clock.now()
        ranking = rank(self._market.book, class_wish(record.object, self._market.marks), now)
        standings = self._standings(record.object, ranking)
        judged = {verdict.type: verdict for verdict in judge_class(sight)}
        asked = all(standing.seller is not None for standing in standings)
        for verdict in self._of_the_market(record, standings, ranking) if asked else _as_it_stands(record):
            if verdict.type != "CredentialsValid" or could_ask(sight):  # a key that is missing comes first
                judged[verdict.type] = verdict
        parts = summary(standings, ((row.offer, row.source) for row in ranking), now)
        worth = asked and worth_writing(record.status, parts, now)
        await self._scribe.write(record, judged.values(), parts if worth else None)
        return None

    def _of_the_market(
        self, record: Typed[GPUNodeClass], standings: tuple[Standing, ...], ranking: Ranking
    ) -> tuple[Verdict, ...]:
        assert record.object is not None
        misfits = [str(reason) for reason in ranking.passed if reason is not PassedOver.NOT_IN_CLASS]
        return judge_market(record.object, standings, misfits[:MISFITS_SAID], self._clock.now())

    def _standings(self, node_class: GPUNodeClass, ranking: Ranking) -> tuple[Standing, ...]:
        market = self._market
        fitting = Counter(row.source for row in ranking)
        return tuple(
            Standing(
                name, source, market.sellers.get(source.name), market.book.state(source.name), fitting[source.name]
            )
            for name, source in sources_of(node_class).items()
        )

    async def _keys_of(self, secret: str) -> frozenset[str] | None:
        """Names only: values are not looked at here. None: there is no such Secret."""
        values = await self._vault.read(secret)
        return None if values is None else frozenset(values)

    def referring_to(self, old: Metadata | None, new: Metadata | None) -> Iterable[Key]:
        """Classes that a change of this Secret concerns."""
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        for record in self._classes.values():
            if record.object is None:
                continue
            wanted = wanted_by(record.object, backend_of(record.object, self._default_backend))
            if changed.key.name in names(wanted):
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


def _as_it_stands(record: Typed[GPUNodeClass]) -> list[Verdict]:
    """What an earlier process found out stays until this one has asked every provider itself."""
    return [verdict for name in sorted(OF_THE_MARKET) if (verdict := condition_of(record, name)) is not None]
