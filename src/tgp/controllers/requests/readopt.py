"""Records a machine again whose record was lost with its request's status. Nothing is bought here."""

from collections.abc import Callable

from msgspec.structs import replace

from tgp.controllers.instances.accounts import AccountTable
from tgp.controllers.instances.cache import InstanceCache
from tgp.controllers.requests.memo import RequestMemo
from tgp.controllers.requests.purchase_gatherer import PurchaseGatherer
from tgp.controllers.requests.status import RequestStatusWriter
from tgp.core.model.account_access import AccountAccess
from tgp.core.model.attempts import provider_of
from tgp.core.model.costs import hourly_of
from tgp.core.model.facts import MachineReadopted, offer_words, subject_of
from tgp.core.model.presence import Found
from tgp.core.requests.node_names import node_name_for
from tgp.core.requests.observation import RequestObservation
from tgp.core.requests.steps import Readopt, Wait
from tgp.ports.clock import Clock
from tgp.ports.cluster import ClusterBusy
from tgp.ports.journal import Journal


class Readopter:
    def __init__(
        self,
        purchases: PurchaseGatherer,
        *,
        access: Callable[[str], AccountAccess | None],
        accounts: AccountTable,
        instance_cache: InstanceCache,
        request_status: RequestStatusWriter,
        journal: Journal,
        clock: Clock,
    ) -> None:
        self._purchases = purchases
        self._access = access  # by name, whether or not a class still names it
        self._accounts = accounts
        self._instance_cache = instance_cache
        self._status = request_status
        self._journal = journal
        self._clock = clock

    async def readopt(self, observation: RequestObservation, step: Readopt, memory: RequestMemo) -> None:
        """One conditional write. From then on its record counts, and its lifetime continues."""
        record, access = observation.record, self._access(step.access)
        if access is None:
            raise ClusterBusy(f"Account access {step.access} is no longer listed; retrying.")
        account = await self._accounts.ensure(access, self._instance_cache.account(access.name), step.attempt.token)
        attempt = replace(step.attempt, account=account.id)
        parts = {
            "nodeClass": self._purchases.class_at(record, access.name) or None,
            "nodeName": node_name_for(record.key, attempt.token, account),
            "readyAt": None,
            "idleSince": None,
        }
        self._instance_cache.watch(attempt.token, access.name, account.identities, not_before=self._clock.boottime())
        known = replace(
            observation,
            attempts=(*observation.attempts, attempt),
            presence=Found(step.instance),
            parts=parts,
        )
        await self._status.write(known, Wait("", ""), memory)
        memory.termination_requests, memory.ask_again_at, memory.trouble, memory.failing_reported = 0, None, "", False
        memory.progress = None
        self._journal.note(
            MachineReadopted(
                subject_of(record),
                provider_of(attempt),
                offer_words(attempt.offer),
                hourly_of(attempt),
                step.instance.id,
                attempt.number,
            )
        )
