"""Takes one GPURequest one step towards its spec, or one step towards its end.

Observe, decide (a pure function), act (one class per kind of step). A purchase is recorded first: a reservation is one
conditional write, and only what this process wrote in this term of leadership is ever ordered. A reconcile can be
killed between any two lines: an order under way is found again by its token.
"""

from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, assert_never

from tgp.api.request import GPURequest
from tgp.api.resource import GPU_REQUEST, NODE
from tgp.controllers.instances.accounts import AccountTable
from tgp.controllers.instances.cache import InstanceCache
from tgp.controllers.requests.ignored_annotations import IgnoredAnnotations
from tgp.controllers.requests.launch import Launcher
from tgp.controllers.requests.ledger import Ledger
from tgp.controllers.requests.memo import RequestMemo, RequestMemos
from tgp.controllers.requests.observe import RequestObserver
from tgp.controllers.requests.purchase_gatherer import Views
from tgp.controllers.requests.readopt import Readopter
from tgp.controllers.requests.reserve import Reserver
from tgp.controllers.requests.status import RequestStatusWriter
from tgp.controllers.requests.terminate import Terminator
from tgp.core.model.attempts import FINALIZER, UID_ANNOTATION
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.token import plain_uid
from tgp.core.model.undecodable import stand_in_for
from tgp.core.requests.attempt_account import has_foreign_token
from tgp.core.requests.lifecycle import next_step
from tgp.core.requests.moments import ends_at
from tgp.core.requests.observation import RequestObservation
from tgp.core.requests.steps import (
    AbandonAttempt,
    AddFinalizer,
    Adopt,
    CloseAttempt,
    Complete,
    DeleteRequest,
    DrainNode,
    Launch,
    PatchNode,
    Readopt,
    RemoveFinalizer,
    RemoveNode,
    Reserve,
    StartTermination,
    Step,
    Terminate,
    Wait,
)
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster, ClusterBusy, NotFound, WriteUnknown
from tgp.ports.reconciler import SOON

UNSURE_FOR = 60.0  # seconds after which a write without an answer will not happen any more
# One write, conditional on the version that was seen: of it and one before without an answer only one can happen, and
# nothing is bought or ended for it. To wait would leave a machine without an owner for so much longer.
REPEATABLE = (Readopt,)


class RequestReconciler:
    def __init__(
        self,
        views: Views,
        observer: RequestObserver,
        *,
        reserver: Reserver,
        launcher: Launcher,
        readopter: Readopter,
        terminator: Terminator,
        request_status: RequestStatusWriter,
        ignored_annotations: IgnoredAnnotations,
        cluster: Cluster,
        instance_cache: InstanceCache,
        accounts: AccountTable,
        ledger: Ledger,
        memos: RequestMemos,
        clock: Clock,
    ) -> None:
        self._views = views
        self._observer = observer
        self._reserver = reserver
        self._launcher = launcher
        self._readopter = readopter
        self._terminator = terminator
        self._status = request_status
        self._ignored_annotations = ignored_annotations
        self._cluster = cluster
        self._instance_cache = instance_cache
        self._accounts = accounts
        self._ledger = ledger
        self._memories = memos
        self._clock = clock

    def start_over(self) -> None:
        """The API server's history went back: machines bought since may be missing from the statuses.

        Earlier reservations are checked and never ordered; a request without one is as doubtful as one whose status
        was erased, for as long as an order may be late.
        """
        self._memories.start_over()

    async def reconcile(self, key: ObjectKey) -> datetime | None:
        record = self._views.requests.get(key)
        if record is None:
            return None
        if self._memories.is_being_created(key):
            return self._clock.now() + SOON
        if record.value is None:  # of a newer version, say. It owns its machine, and expires like any other
            record, expires = stand_in_for(record), None
            if not record.deleting and (expires := ends_at(record)) is None:
                return None
            if expires is not None and self._clock.now() < expires:
                return expires
        memory = self._memories.of(plain_uid(record.uid_text))
        sure = await self._be_sure(record, memory)
        await self._accounts.load()
        observation = self._observer.observe(record, memory)
        memory.remember(observation)
        self._watch(observation)
        self._ignored_annotations.note(observation)
        step = next_step(observation)
        if not sure and not isinstance(step, REPEATABLE):
            raise ClusterBusy(f"Write to GPURequest {record.key} got no answer and may still take effect; retrying.")
        try:
            return await self._act(observation, step, memory)
        except WriteUnknown:
            memory.unsure_of, memory.unsure_since = record.resource_version, self._clock.boottime()
            raise

    async def _be_sure(self, record: KubeObject[GPURequest], memory: RequestMemo) -> bool:
        """Decide on nothing older than our own last write, also if its outcome is unknown.

        Such a write was conditional on a version: once the object has another, the write took effect, or never will.
        False: the object still has this version, so the write may yet take effect.
        """
        if memory.unsure_of is not None and record.resource_version <= memory.unsure_of:
            fresh = await self._cluster.read(GPU_REQUEST, record.key)
            version = int(fresh["metadata"]["resourceVersion"])
            if version != record.resource_version:
                raise ClusterBusy(f"Cache does not show GPURequest {record.key} at version {version} yet; retrying.")
            if self._clock.boottime() - memory.unsure_since < UNSURE_FOR:
                return False
        memory.unsure_of = None
        self._ledger.seen(record.uid_text)
        return True

    def _watch(self, observation: RequestObservation) -> None:
        """From now on absences of its machine from the lists of its account count."""
        attempt, account = observation.attempt, observation.account
        if attempt is not None and account is not None and not has_foreign_token(observation.record, attempt):
            self._instance_cache.watch(attempt.token, account.access.name, account.identities)

    async def _act(self, observation: RequestObservation, step: Step, memory: RequestMemo) -> datetime | None:
        match step:
            case Wait():
                await self._status.write(observation, step, memory)
                return _whole(step.until)
            case AddFinalizer():
                await self._enroll(observation, memory)
            case Reserve():
                return await self._reserver.reserve(observation, step, memory)
            case Launch():
                return await self._launcher.order(observation, step, memory)
            case AbandonAttempt():
                await self._launcher.abandon(observation, step, memory)
            case Adopt():
                await self._launcher.adopt(observation, step, memory)
            case Readopt():
                await self._readopter.readopt(observation, step, memory)
            case PatchNode():
                await self._patch_node(step)
            case StartTermination():
                await self._terminator.begin(observation, step, memory)
            case DrainNode():
                return await self._terminator.empty(observation, step, memory)
            case Terminate():
                return await self._terminator.terminate(observation, step, memory)
            case RemoveNode():
                await self._terminator.remove_node(step)
            case CloseAttempt():
                await self._terminator.close(observation, step, memory)
            case Complete():
                await self._status.write(observation, step, memory, finish=step)
            case RemoveFinalizer():
                await self._release(observation)
                return None
            case DeleteRequest():
                await self._discard(observation.record)
                return None
            case _:
                assert_never(step)
        return self._clock.now() + SOON

    async def _enroll(self, observation: RequestObservation, memory: RequestMemo) -> None:
        record = observation.record
        memory.blank = UID_ANNOTATION not in record.annotations and not observation.attempts
        others = (
            each for each in record.finalizers if each != FINALIZER
        )  # ours is present where the annotation was edited
        change = {
            "metadata": {
                "finalizers": [*others, FINALIZER],
                "annotations": {UID_ANNOTATION: record.uid_text},
            }
        }
        await self._patch(record, change)

    async def _patch_node(self, step: PatchNode) -> None:
        node = step.node
        await self._cluster.patch(NODE, node.key, step.change, resource_version=str(node.resource_version))
        await self._views.nodes.wait_for_own_write(node.key)  # or the next reconcile would do the same again

    async def _release(self, observation: RequestObservation) -> None:
        record = observation.record
        if not observation.restored:
            for attempt in observation.attempts:
                self._instance_cache.forget(attempt.token)
        left = [each for each in record.finalizers if each != FINALIZER]
        with suppress(NotFound):  # already deleted
            await self._patch(record, {"metadata": {"finalizers": left}})
        self._memories.forget(plain_uid(record.uid_text))

    async def _discard(self, record: KubeObject[GPURequest]) -> None:
        await self._cluster.delete(
            GPU_REQUEST, record.key, uid=record.uid_text, resource_version=str(record.resource_version)
        )

    async def _patch(self, record: KubeObject[GPURequest], change: dict[str, Any]) -> None:
        await self._cluster.patch(
            GPU_REQUEST, record.key, change, resource_version=str(record.resource_version), uid=record.uid_text
        )


def _whole(moment: datetime | None) -> datetime | None:
    """The next whole second: reconciles see whole seconds, and one within a second would see the last one."""
    if moment is None or not moment.microsecond:
        return moment
    return moment.replace(microsecond=0) + timedelta(seconds=1)
