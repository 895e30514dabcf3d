"""Lets a machine's kubelet in: judges the certificate requests that come with bootstrap tokens of ours, and no others.

The order matters. The token's Secret is read as the API server has it; then it is written there for which request it
is used; then that request is approved. Whoever dies in between leaves a token that is good for this request only.
"""

from datetime import datetime, timedelta
from typing import Any, assert_never

from tgp.api.request import GPURequest
from tgp.api.resource import CERTIFICATE_SIGNING_REQUEST, NODE
from tgp.controllers.boot.tokens import BootstrapTokens, Found
from tgp.controllers.request_index import BY_UID
from tgp.core.model.attempts import attempts_of, copied
from tgp.core.model.facts import JoinApproved, JoinApprovedByOthers, JoinDenied, Subject, subject_of
from tgp.core.model.key import Key
from tgp.core.model.record import uid_text
from tgp.core.model.signing import APPROVAL_REASON, APPROVED, SigningRequest
from tgp.core.model.token import read_token
from tgp.core.model.typed import Typed
from tgp.core.rules.csr import Approve, Bearer, Claim, Deny, Later, Leave, judge_csr, token_id_of
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster, NotFound, View
from tgp.ports.journal import Journal

LEAVING = frozenset({"Terminating", "Finished", "Failed"})  # phases in which no machine is waited for
LOOK_AGAIN = timedelta(seconds=5)
MOST_DENIED = 20  # requests with one token; an honest kubelet asks once, and again under the same name
MOST_REMEMBERED = 1000  # tokens, or approvals of others; the oldest is forgotten first


class SigningRequests:
    def __init__(
        self,
        *,
        asked: View[SigningRequest],
        requests: View[Typed[GPURequest]],  # indexed by uid
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
        self._told: dict[str, None] = {}  # by uid: approvals of others that were spoken of
        self._denials: dict[str, int] = {}  # by token id

    async def reconcile(self, key: Key) -> datetime | None:
        asked = self._asked.get(key)
        if asked is None or not asked.ours:
            return None
        if asked.answer is not None:
            self._tell_of_others(asked)
            return None
        try:
            return await self._answer(asked)
        except NotFound:  # the request, which our view will show; or its token, which makes another case of it
            return self._clock.now() + LOOK_AGAIN

    async def _answer(self, asked: SigningRequest) -> datetime | None:
        token_id = token_id_of(asked.username)
        found = await self._tokens.look(token_id) if token_id else None
        record = self._request_of(found)
        claim = await self._claim(found.bearer, record) if found is not None and record is not None else None
        match judge_csr(asked, found.bearer if found is not None else None, claim, self._clock.now()):
            case Leave():
                return None
            case Later(at):
                return at
            case Approve(node):
                assert found is not None, "only a token's bearer is let in"
                assert record is not None, "somebody waits for it"
                await self._tokens.use(found, uid_text(asked.uid), asked.key.name)
                await self._say(asked, approved=True, reason=APPROVAL_REASON, message=f"for Node {node}, by its token")
                self._journal.note(JoinApproved(_subject(asked, record), node, asked.key.name))
            case Deny(reason, why):
                await self._say(asked, approved=False, reason=reason, message=why)
                self._journal.note(JoinDenied(_subject(asked, record), asked.key.name, reason, why))
                await self._count_against(found)
            case other:
                assert_never(other)
        return None

    async def _count_against(self, found: Found | None) -> None:
        """Whoever asks for what is not his, over and over, keeps us from those who wait: his token is withdrawn."""
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

    def _request_of(self, found: Found | None) -> Typed[GPURequest] | None:
        token = read_token(found.bearer.token) if found is not None else None
        if token is None:
            return None
        return next((record for record in self._requests.having(BY_UID, token.uid) if not copied(record)), None)

    async def _claim(self, bearer: Bearer, record: Typed[GPURequest]) -> Claim | None:
        """None: our view does not show the attempt yet, whose reservation was written before its token."""
        token = read_token(bearer.token)
        attempts = attempts_of(record)
        newest = attempts[-1] if attempts else None
        if token is None or newest is None or newest.number < token.attempt:
            return None
        status = record.status  # as it stands: also of an object that a newer version wrote
        waits = newest.token == bearer.token and newest.ended_at is None
        gone = record.deleting or status.get("phase") in LEAVING
        return Claim(waits and not gone, str(status.get("nodeName", "")), await self._is_taken(bearer.node))

    async def _is_taken(self, name: str) -> bool:
        """Asked of the API server, as our view may be behind. A machine whose request waits has registered no Node."""
        try:
            await self._cluster.read(NODE, Key("", name))
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


def _subject(asked: SigningRequest, record: Typed[GPURequest] | None) -> Subject:
    """Its request, which people look at; else the thing itself."""
    if record is not None:
        return subject_of(record)
    return Subject(CERTIFICATE_SIGNING_REQUEST, asked.key, uid_text(asked.uid))
