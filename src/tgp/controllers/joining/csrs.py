"""Approves a machine's kubelet: decides about certificate requests with bootstrap tokens of tgp, and no others.

The order matters. The token's Secret is read from the API server; then the certificate request that uses it is
recorded there; then that request is approved. After a crash in between, the token is valid for that request only.
"""

from datetime import datetime, timedelta
from typing import Any, assert_never

from tgp.api.request import GPURequest
from tgp.api.resource import CERTIFICATE_SIGNING_REQUEST, NODE
from tgp.controllers.joining.tokens import BootstrapTokens, TokenSecret
from tgp.controllers.requests.indexes import BY_UID
from tgp.core.joining.csr import Approve, AttemptClaim, Bearer, Deny, Ignore, Later, judge_csr, token_id_of
from tgp.core.model.attempts import attempts_of, copied
from tgp.core.model.facts import FactSubject, JoinApproved, JoinApprovedByOthers, JoinDenied, subject_of
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.record import uid_text
from tgp.core.model.signing import APPROVAL_REASON, APPROVED, SigningRequest
from tgp.core.model.token import read_token
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster, NotFound, View
from tgp.ports.journal import Journal

LEAVING = frozenset({"Terminating", "Finished", "Failed"})  # phases in which no machine is expected
LOOK_AGAIN = timedelta(seconds=5)
MOST_DENIED = 20  # requests with one token; an honest kubelet asks once, and again under the same name
MOST_REMEMBERED = 1000  # tokens, or approvals by others; the oldest is dropped first


class SigningRequests:
    def __init__(
        self,
        *,
        asked: View[SigningRequest],
        requests: View[KubeObject[GPURequest]],  # indexed by uid
        tokens: BootstrapTokens,
        cluster: Cluster,
        journal: Journal,
        clock: Clock,  # the cluster's time
    ) -> None:
        self._asked = asked
        self._requests = requests
        self._tokens = tokens
        self._cluster = cluster
        self._journal = journal
        self._clock = clock
        self._told: dict[str, None] = {}  # by uid: approvals by others that were reported
        self._denials: dict[str, int] = {}  # by token id

    async def reconcile(self, key: ObjectKey) -> datetime | None:
        asked = self._asked.get(key)
        if asked is None or not asked.ours:
            return None
        if asked.answer is not None:
            self._tell_of_others(asked)
            return None
        try:
            return await self._answer(asked)
        except NotFound:  # the certificate request is gone, or its token is, which changes the decision
            return self._clock.now() + LOOK_AGAIN

    async def _answer(self, asked: SigningRequest) -> datetime | None:
        token_id = token_id_of(asked.username)
        found = await self._tokens.look(token_id) if token_id else None
        record = self._request_of(found)
        claim = await self._claim(found.bearer, record) if found is not None and record is not None else None
        match judge_csr(asked, found.bearer if found is not None else None, claim, self._clock.now()):
            case Ignore():
                return None
            case Later(at):
                return at
            case Approve(node):
                assert found is not None, "only a request with a token is approved"
                assert record is not None, "a GPURequest waits for it"
                await self._tokens.use(found, uid_text(asked.uid), asked.key.name)
                await self._say(asked, approved=True, reason=APPROVAL_REASON, message=f"token belongs to Node {node}")
                self._journal.note(JoinApproved(_subject(asked, record), node, asked.key.name))
            case Deny(reason, why):
                await self._say(asked, approved=False, reason=reason, message=why)
                self._journal.note(JoinDenied(_subject(asked, record), asked.key.name, reason, why))
                await self._count_against(found)
            case other:
                assert_never(other)
        return None

    async def _count_against(self, found: TokenSecret | None) -> None:
        """A client with too many denied requests delays the others: its token is revoked."""
        if found is None:
            return
        denials = self._denials.pop(found.bearer.id, 0) + 1
        self._denials[found.bearer.id] = denials
        _bounded(self._denials)
        if denials >= MOST_DENIED:
            await self._tokens.remove(found.bearer.token)

    async def _say(self, asked: SigningRequest, *, approved: bool, reason: str, message: str) -> None:
        await self._cluster.approve(
            asked.key.name,
            uid=uid_text(asked.uid),
            resource_version=str(asked.resource_version),
            approved=approved,
            reason=reason,
            message=message,
        )

    def _request_of(self, found: TokenSecret | None) -> KubeObject[GPURequest] | None:
        token = read_token(found.bearer.token) if found is not None else None
        if token is None:
            return None
        return next((record for record in self._requests.by_index(BY_UID, token.uid) if not copied(record)), None)

    async def _claim(self, bearer: Bearer, record: KubeObject[GPURequest]) -> AttemptClaim | None:
        """None: the cache does not show the attempt yet, which was recorded before its token."""
        token = read_token(bearer.token)
        attempts = attempts_of(record)
        newest = attempts[-1] if attempts else None
        if token is None or newest is None or newest.number < token.attempt:
            return None
        status = record.status  # as stored: also of an object that a newer version wrote
        waits = newest.token == bearer.token and newest.ended_at is None
        gone = record.deleting or status.get("phase") in LEAVING
        return AttemptClaim(waits and not gone, str(status.get("nodeName", "")), await self._is_taken(bearer.node))

    async def _is_taken(self, name: str) -> bool:
        """Read from the API server, as the cache may be behind. A machine whose request waits has registered no
        Node.
        """
        try:
            await self._cluster.read(NODE, ObjectKey("", name))
        except NotFound:
            return False
        return True

    def _tell_of_others(self, asked: SigningRequest) -> None:
        answer, uid = asked.answer, uid_text(asked.uid)
        if answer is None or answer.type != APPROVED or answer.reason == APPROVAL_REASON or uid in self._told:
            return
        self._told[uid] = None
        _bounded(self._told)
        self._journal.note(JoinApprovedByOthers(_subject(asked, None), answer.reason))


def _bounded(remembered: dict[str, Any]) -> None:
    while len(remembered) > MOST_REMEMBERED:
        del remembered[next(iter(remembered))]


def _subject(asked: SigningRequest, record: KubeObject[GPURequest] | None) -> FactSubject:
    """Its GPURequest, which users look at; else the certificate request itself."""
    if record is not None:
        return subject_of(record)
    return FactSubject(CERTIFICATE_SIGNING_REQUEST, asked.key, uid_text(asked.uid))
