"""Reserves a machine on paper: one conditional write. Nothing is bought here."""

from collections.abc import Callable
from datetime import datetime

from msgspec.structs import replace

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import Attempt
from tgp.api.values import usd
from tgp.controllers.ledger import Ledger
from tgp.controllers.memory import Memory
from tgp.controllers.request_sight import Lookout
from tgp.controllers.request_story import Storyteller
from tgp.controllers.rosters import Rosters
from tgp.controllers.till_desk import node_name_for
from tgp.core.model.facts import ConditionChanged, subject_of
from tgp.core.model.till import till_of
from tgp.core.model.token import plain_uid, token_for
from tgp.core.rules.lifecycle import idle_timeout
from tgp.core.rules.purchase import chosen, holding, life_of
from tgp.core.rules.sight import Sight
from tgp.core.rules.sources import sources_of
from tgp.core.rules.steps import Order, Reserve, Rest
from tgp.ports.clock import Clock
from tgp.ports.cluster import ClusterBusy, ClusterError, WriteUnknown
from tgp.ports.journal import Journal
from tgp.ports.leadership import NotLeading
from tgp.ports.reconciler import SOON


class Reserving:
    def __init__(
        self,
        lookout: Lookout,
        *,
        cluster_id: Callable[[], str],
        rosters: Rosters,
        ledger: Ledger,
        story: Storyteller,
        journal: Journal,
        clock: Clock,
    ) -> None:
        self._lookout = lookout
        self._cluster_id = cluster_id  # empty: not known yet
        self._rosters = rosters
        self._ledger = ledger
        self._story = story
        self._journal = journal
        self._clock = clock

    async def reserve(self, sight: Sight, step: Reserve, memory: Memory) -> datetime | None:
        """From the write on the machine counts against every limit, and may exist."""
        record, buy = sight.record, step.buy
        name, node_class = self._lookout.class_of(record)
        attempt = self._attempt(sight, node_class, step)
        why = self._ledger.reserve(name, node_class.spec.limits, holding(plain_uid(record.uid_text), buy))
        if why:
            await self._story.tell(sight, Rest("LimitReached", f"class {name}: {why}"), memory)
            return None
        parts = {
            "nodeClass": name,
            "nodeName": node_name_for(record, attempt.token, buy.offer),
            "readyAt": None,
            "idleSince": None,
        }
        reserved = replace(sight, attempts=(*sight.attempts, attempt), parts=parts, presence=None)
        try:
            await self._story.tell(reserved, Order(attempt), memory)
        except WriteUnknown:
            raise  # it may be on paper: it counts until the view shows what became of it
        except (ClusterError, NotLeading):
            self._ledger.seen(record.uid_text)
            raise
        self._warn_of_no_end(sight)
        memory.blank = False
        memory.busy, memory.order_not_before = 0, None
        memory.asked, memory.ask_again_at, memory.trouble, memory.told_failing = 0, None, "", False
        memory.progress = None
        return self._clock.now() + SOON

    def _attempt(self, sight: Sight, node_class: GPUNodeClass, step: Reserve) -> Attempt:
        buy = step.buy
        source = next((each for each in sources_of(node_class).values() if each.name == buy.source), None)
        assert source is not None, "what was chosen is sold by the class"
        till = till_of(source, buy.offer.sku if buy.offer.boot.value == "power" else "")
        cluster = self._cluster_id()
        if not cluster:
            raise ClusterBusy("the kube-system namespace is not seen yet: nothing can be named")
        return Attempt(
            number=step.number,
            token=token_for(cluster, sight.record.uid_text, step.number),
            offer=chosen(buy),
            credentials=till.credentials or None,
            endpoint=till.settings.endpoint,
            settings=till.written_settings or None,
            account=self._rosters.account(till.name) or None,
            epoch=self._lookout.epoch(),
            max_hourly_price=usd(buy.most_microusd) if buy.most_microusd is not None else None,
            reserved_at=sight.now,
        )

    def _warn_of_no_end(self, sight: Sight) -> None:
        """Said when it is bought: nobody shall find out by the bill."""
        if life_of(sight.spec) is None:
            why = "spec.maxLifetime is Never: it costs until it idles out, is lost, or somebody deletes it"
        elif idle_timeout(sight) is None:
            why = "spec.idleTimeout is Never: it is paid for its whole life, used or not"
        else:
            return
        self._journal.note(ConditionChanged(subject_of(sight.record), "Launched", "False", "NoEnd", why, False))
