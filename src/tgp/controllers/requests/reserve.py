"""Reserves a machine in the status: one conditional write. Nothing is bought here."""

from collections.abc import Callable
from datetime import datetime, timedelta

from msgspec.structs import replace

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import Attempt, GPURequest
from tgp.api.values import usd
from tgp.controllers.instances.accounts import AccountTable, TableFull
from tgp.controllers.instances.cache import InstanceCache
from tgp.controllers.requests.ledger import GroupLimits, Ledger
from tgp.controllers.requests.memo import RequestMemo
from tgp.controllers.requests.purchase_gatherer import PurchaseGatherer
from tgp.controllers.requests.status import RequestStatusWriter
from tgp.core.market.sources import sources_of
from tgp.core.model.account_access import access_of
from tgp.core.model.attempts import in_short
from tgp.core.model.cloud_account import TABLE, CloudAccount
from tgp.core.model.facts import ConditionChanged, subject_of
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.token import plain_uid, token_for
from tgp.core.requests.chosen_offer import recorded
from tgp.core.requests.moments import idle_timeout
from tgp.core.requests.node_names import node_name_for
from tgp.core.requests.observation import RequestObservation
from tgp.core.requests.purchase import life_of, longest_run, reservation_of
from tgp.core.requests.steps import Launch, Reserve, Wait
from tgp.ports.clock import Clock
from tgp.ports.clouds import Clouds, known_facts
from tgp.ports.cluster import ClusterBusy, ClusterError, Forbidden, Refused, WriteUnknown
from tgp.ports.journal import Journal
from tgp.ports.leadership import NotLeading
from tgp.ports.reconciler import SOON

NOT_WRITTEN_PAUSE = timedelta(minutes=1)  # before the table of accounts is tried again


class Reserver:
    def __init__(
        self,
        purchases: PurchaseGatherer,
        *,
        epoch: Callable[[], str],
        cluster_id: Callable[[], str],
        clouds: Clouds,
        instance_cache: InstanceCache,
        accounts: AccountTable,
        ledger: Ledger,
        request_status: RequestStatusWriter,
        journal: Journal,
        clock: Clock,
    ) -> None:
        self._purchases = purchases
        self._epoch = epoch  # of the present term of leadership
        self._cluster_id = cluster_id  # empty: not known yet
        self._clouds = clouds
        self._instance_cache = instance_cache
        self._accounts = accounts
        self._ledger = ledger
        self._status = request_status
        self._journal = journal
        self._clock = clock

    async def reserve(self, observation: RequestObservation, step: Reserve, memory: RequestMemo) -> datetime | None:
        """From the write on the machine counts against every limit, and may exist."""
        record, buy = observation.record, step.buy
        name, node_class = self._purchases.class_of(record)
        try:
            account = await self._account(record, node_class, step)
        except (TableFull, Refused, Forbidden) as error:  # a quota on ConfigMaps, say: the condition names it
            why = f"Account at {step.buy.offer.provider} cannot be written to ConfigMap {TABLE}: {error}"
            await self._status.write(observation, Wait("AccountNotWritten", in_short(why)), memory)
            return observation.now + NOT_WRITTEN_PAUSE
        attempt = self._attempt(observation, account, step)
        limited, pool = [GroupLimits(name, node_class.spec.limits)], observation.pool
        if pool is not None and pool.value is not None:
            limited.append(GroupLimits(pool.key, pool.value.spec.limits))
        why = self._ledger.reserve(limited, reservation_of(plain_uid(record.uid_text), buy))
        if why:
            await self._status.write(observation, Wait("LimitReached", why), memory)
            return None
        parts = {
            "nodeClass": name,
            "nodeName": node_name_for(record.key, attempt.token, account),
            "readyAt": None,
            "idleSince": None,
        }
        reserved = replace(observation, attempts=(*observation.attempts, attempt), parts=parts, presence=None)
        memory.reserved = attempt  # exactly this is ordered, whatever the status says later
        try:
            await self._status.write(reserved, Launch(attempt), memory)
        except WriteUnknown:
            raise  # it may be written: it counts until the view shows the outcome
        except (ClusterError, NotLeading):
            self._ledger.seen(record.uid_text)
            raise
        self._warn_without_end(observation)
        memory.blank = False
        memory.busy, memory.order_not_before = 0, None
        memory.termination_requests, memory.ask_again_at, memory.trouble, memory.failing_reported = 0, None, "", False
        memory.progress, memory.termination_accepted = None, False
        memory.machine_ids.clear()
        return self._clock.now() + SOON

    async def _account(self, record: KubeObject[GPURequest], node_class: GPUNodeClass, step: Reserve) -> CloudAccount:
        """Recorded in the operator's namespace before a status names it."""
        buy = step.buy
        source = next((each for each in sources_of(node_class).values() if each.name == buy.row.source), None)
        assert source is not None, "a chosen offer has a source of the class"
        access = access_of(source, buy.offer.sku if buy.offer.boot.value == "power" else "")
        return await self._accounts.ensure(access, self._instance_cache.account(access.name), self._token(record, step))

    def _token(self, record: KubeObject[GPURequest], step: Reserve) -> str:
        cluster = self._cluster_id()
        if not cluster:
            raise ClusterBusy("Namespace kube-system is not in the cache yet; retrying.")
        return token_for(cluster, record.uid_text, step.number)

    def _attempt(self, observation: RequestObservation, account: CloudAccount, step: Reserve) -> Attempt:
        buy = step.buy
        facts = known_facts(self._clouds, buy.offer.provider)
        run = longest_run(observation.spec, facts.longest_run if facts is not None else None)
        return Attempt(
            number=step.number,
            token=self._token(observation.record, step),
            offer=recorded(buy.ordered),
            account=account.id,
            epoch=self._epoch(),
            max_hourly_price=usd(buy.most_microusd),
            reserved_at=observation.now,
            provider_ends_at=observation.now + run if run is not None else None,
        )

    def _warn_without_end(self, observation: RequestObservation) -> None:
        """Warn at the purchase, not by the bill. The machines of a pool end when the pool no longer needs them."""
        if observation.pool is not None:
            return
        if life_of(observation.spec) is None:
            why = "spec.maxLifetime is Never: the machine is billed until it is idle, lost or deleted."
        elif idle_timeout(observation) is None:
            why = "spec.idleTimeout is Never: the machine is billed for its whole lifetime, used or not."
        else:
            return
        self._journal.note(ConditionChanged(subject_of(observation.record), "Launched", "False", "NoEnd", why, False))
