"""Reserves a machine on paper: one conditional write. Nothing is bought here."""

from collections.abc import Callable
from datetime import datetime, timedelta

from msgspec.structs import replace

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import Attempt, GPURequest
from tgp.api.values import usd
from tgp.controllers.accounts import Accounts, TableFull
from tgp.controllers.ledger import Ledger
from tgp.controllers.memory import Memory
from tgp.controllers.request_sight import Lookout
from tgp.controllers.request_story import Storyteller
from tgp.controllers.rosters import Rosters
from tgp.core.model.attempts import in_short
from tgp.core.model.cloud_account import TABLE, CloudAccount
from tgp.core.model.facts import ConditionChanged, subject_of
from tgp.core.model.till import till_of
from tgp.core.model.token import plain_uid, token_for
from tgp.core.model.typed import Typed
from tgp.core.rules.lifecycle import idle_timeout
from tgp.core.rules.node_names import node_name_for
from tgp.core.rules.purchase import chosen, holding, life_of
from tgp.core.rules.sight import Sight
from tgp.core.rules.sources import sources_of
from tgp.core.rules.steps import Order, Reserve, Rest
from tgp.ports.clock import Clock
from tgp.ports.cluster import ClusterBusy, ClusterError, Forbidden, Refused, WriteUnknown
from tgp.ports.journal import Journal
from tgp.ports.leadership import NotLeading
from tgp.ports.reconciler import SOON

NOT_WRITTEN_PAUSE = timedelta(minutes=1)  # before the table of accounts is tried again


class Reserving:
    def __init__(
        self,
        lookout: Lookout,
        *,
        cluster_id: Callable[[], str],
        rosters: Rosters,
        accounts: Accounts,
        ledger: Ledger,
        story: Storyteller,
        journal: Journal,
        clock: Clock,
    ) -> None:
        self._lookout = lookout
        self._cluster_id = cluster_id  # empty: not known yet
        self._rosters = rosters
        self._accounts = accounts
        self._ledger = ledger
        self._story = story
        self._journal = journal
        self._clock = clock

    async def reserve(self, sight: Sight, step: Reserve, memory: Memory) -> datetime | None:
        """From the write on the machine counts against every limit, and may exist."""
        record, buy = sight.record, step.buy
        name, node_class = self._lookout.class_of(record)
        try:
            account = await self._account(record, node_class, step)
        except (TableFull, Refused, Forbidden) as error:  # a quota on ConfigMaps, say: the condition names it
            why = f"the account at {step.buy.offer.provider} cannot be written into ConfigMap {TABLE}: {error}"
            await self._story.tell(sight, Rest("AccountNotWritten", in_short(why)), memory)
            return sight.now + NOT_WRITTEN_PAUSE
        attempt = self._attempt(sight, account, step)
        why = self._ledger.reserve(name, node_class.spec.limits, holding(plain_uid(record.uid_text), buy))
        if why:
            await self._story.tell(sight, Rest("LimitReached", f"class {name}: {why}"), memory)
            return None
        parts = {
            "nodeClass": name,
            "nodeName": node_name_for(record.key, attempt.token, account),
            "readyAt": None,
            "idleSince": None,
        }
        reserved = replace(sight, attempts=(*sight.attempts, attempt), parts=parts, presence=None)
        memory.reserved = attempt  # exactly this is ordered, and nothing that is written there instead
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
        memory.progress, memory.end_accepted = None, False
        memory.machine_ids.clear()
        return self._clock.now() + SOON

    async def _account(self, record: Typed[GPURequest], node_class: GPUNodeClass, step: Reserve) -> CloudAccount:
        """On paper in the operator's namespace before anything names it."""
        buy = step.buy
        source = next((each for each in sources_of(node_class).values() if each.name == buy.source), None)
        assert source is not None, "what was chosen is sold by the class"
        till = till_of(source, buy.offer.sku if buy.offer.boot.value == "power" else "")
        return await self._accounts.ensure(till, self._rosters.account(till.name), self._token(record, step))

    def _token(self, record: Typed[GPURequest], step: Reserve) -> str:
        cluster = self._cluster_id()
        if not cluster:
            raise ClusterBusy("the kube-system namespace is not seen yet: nothing can be named")
        return token_for(cluster, record.uid_text, step.number)

    def _attempt(self, sight: Sight, account: CloudAccount, step: Reserve) -> Attempt:
        buy = step.buy
        return Attempt(
            number=step.number,
            token=self._token(sight.record, step),
            offer=chosen(buy),
            account=account.id,
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
