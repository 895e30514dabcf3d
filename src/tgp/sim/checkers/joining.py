"""The invariants about joining: J1 to J7. What lets a machine in is made for one attempt, and does not outlive it.

Which key and token a machine has is read out of what it was ordered with, as the machine itself would: nothing is taken
from what the operator wrote down about it.
"""

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from tgp.api.resource import CONFIG_MAP, NODE, SECRET
from tgp.core.model.join_record import JOIN_RECORDS, JoinRecord, read_line
from tgp.core.model.signing import APPROVED, KUBELET_SIGNER, TOKEN_GROUP
from tgp.core.model.token import read_token
from tgp.sim.apiserver.json_value import Json
from tgp.sim.checkers.recorded import RecordedRequest, Rented
from tgp.sim.checkers.recorder import Checker, Recorder
from tgp.sim.checkers.secrecy import NoCanary
from tgp.sim.clouds.machine import Phase
from tgp.sim.mesh.tailnet import AuthKey, Tailnet
from tgp.sim.router import Exchange
from tgp.sim.talos_guest import TalosGuest, documents_in, guest_in
from tgp.sim.world import KUBERNETES

TOKEN_TYPE = "bootstrap.kubernetes.io/token"  # noqa: S105 - a type of Secrets
TOKEN_NOTE = "tgp.io/token"  # noqa: S105 - an annotation: for which machine
AFTER_JOINING = 60.0  # seconds that a token may outlast the Node it was made for
AFTER_THE_END = 300.0  # and the attempt: a leader may have died over it
OUT_OF_THE_MESH = 900.0  # seconds: entries are swept when they are ten minutes old, and a look is once a minute
UNHEARD = 7200.0  # a key whose creator never got the answer expires by itself: no client has it
JOIN_SECRET = "tgp-join"  # noqa: S105 - the name of a Secret
AUTHORITY_KEYS = {(name, "key") for name in ("ca", "aggregatorCA", "serviceAccount", "acceptedCAs")}
ENCRYPTION_KEYS = {"secretboxEncryptionSecret", "aescbcEncryptionSecret"}  # of etcd
SHARED_BY_ALL = {("cluster", "id"), ("cluster", "secret"), ("machine", "token")}
PUBLIC = (
    "ca.crt",
    "endpoint",
    "cluster-name",
    "cluster-id",
)  # parts of the names of keys there whose values are not secret


@dataclass(frozen=True, slots=True)
class TokenState:
    """A bootstrap token's Secret as it stands there."""

    name: str
    token: str  # the launch token
    node: str
    uid: str  # of its request, 32 digits
    expires_at: datetime | None  # None: it cannot be read


def standing_of(secret: Json) -> TokenState | None:
    """None: no token of ours."""
    notes = secret["metadata"].get("annotations") or {}
    token = read_token(str(notes.get(TOKEN_NOTE, "")))
    if secret.get("type") != TOKEN_TYPE or token is None:
        return None
    expires = _plain(secret, "expiration")
    return TokenState(
        secret["metadata"]["name"],
        str(token),
        str(notes.get("tgp.io/node", "")),
        token.uid,
        datetime.fromisoformat(expires) if expires else None,
    )


class OneToken(Checker):
    """J1: never two valid bootstrap tokens for one request, and none before its attempt is on paper."""

    invariant = "J1"

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder)
        self._standing: dict[str, TokenState] = {}  # by name

    def confided(self, before: Json | None, after: Json | None) -> None:
        was, made = (standing_of(each) if each is not None else None for each in (before, after))
        if was is not None:
            self._standing.pop(was.name, None)
        if made is None:
            return
        self._standing[made.name] = made
        now = self.recorder.world.clock.now()
        alike = [
            each.name
            for each in self._standing.values()
            if each.uid == made.uid and (each.expires_at is None or each.expires_at > now)
        ]
        if len(alike) > 1:
            self.blame(f"{', '.join(sorted(alike))} let in machines of one request at once")
        claim = self.recorder.claims.get(made.uid)
        if was is None and (claim is None or not claim.is_open(made.token)):
            self.blame(f"{made.name} was made for {made.token}, an attempt that is not on paper, or over")


class TokenGoes(Checker):
    """J2: a token's Secret is gone soon after its Node has come, and soon after its attempt is over."""

    invariant = "J2"

    def __init__(
        self, recorder: Recorder, *, after_joining: float = AFTER_JOINING, after_the_end: float = AFTER_THE_END
    ) -> None:
        super().__init__(recorder)
        self._after_joining, self._after_the_end = after_joining, after_the_end
        self._standing: dict[str, TokenState] = {}  # by launch token
        self._due: dict[str, tuple[float, str]] = {}  # by launch token: until when, and why

    def confided(self, before: Json | None, after: Json | None) -> None:
        was, made = (standing_of(each) if each is not None else None for each in (before, after))
        if made is not None:
            self._standing[made.token] = made
        elif was is not None:
            self._standing.pop(was.token, None)
            self._due.pop(was.token, None)

    def claimed(self, before: RecordedRequest | None, after: RecordedRequest | None) -> None:
        claim = after or before
        uid = claim.uid if claim is not None else ""
        for token, made in self._standing.items():
            if made.uid == uid and (after is None or not after.is_open(token)):
                self._set(token, self._after_the_end, "its attempt was over")

    def registered(self, before: Json | None, after: Json | None) -> None:
        if before is not None or after is None:
            return
        mark = str(after["spec"].get("providerID") or "").rpartition("/")[2]
        if mark in self._standing:
            self._set(mark, self._after_joining, f"Node {after['metadata']['name']} had come")

    def _set(self, token: str, within: float, why: str) -> None:
        due = self.recorder.now + within
        if token not in self._due or due < self._due[token][0]:
            self._due[token] = due, f"{within:.0f} s after {why}"

    def look(self, now: float) -> None:
        for token, (due, why) in list(self._due.items()):
            if now > due:
                del self._due[token]
                self.blame(f"{self._standing[token].name}, by which {token} joins, was there {why}")


class OneCertificate(Checker):
    """J3: by one token one certificate request is approved, and for the Node that the token was made for."""

    invariant = "J3"

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder)
        self._made_for: dict[str, str] = {}  # by token id: the launch token; the newest there ever was
        self._approved: dict[str, str] = {}  # by launch token: the request's uid

    def confided(self, _before: Json | None, after: Json | None) -> None:
        made = standing_of(after) if after is not None else None
        if made is not None:
            self._made_for[made.name.rpartition("-")[2]] = made.token

    def asked(self, before: Json | None, after: Json | None) -> None:
        if after is None or not _is_approved(after) or (before is not None and _is_approved(before)):
            return
        spec, meta = after["spec"], after["metadata"]
        if spec.get("signerName") != KUBELET_SIGNER or TOKEN_GROUP not in (spec.get("groups") or ()):
            return
        token = self._made_for.get(str(spec.get("username", "")).rpartition(":")[2])
        if token is None:
            self.blame(f"{meta['name']} was approved for {spec.get('username')}, a token of no machine")
        elif self._approved.setdefault(token, meta["uid"]) != meta["uid"]:
            self.blame(f"{meta['name']} was approved, the second request that came with the token of {token}")


class OutOfTheMesh(Checker):
    """J4: a mesh's key or device does not outlast its machine for long, while the mesh can be asked."""

    invariant = "J4"

    def __init__(
        self,
        recorder: Recorder,
        tailnet: Tailnet,
        *,
        within: float = OUT_OF_THE_MESH,
        can_be_asked: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__(recorder)
        self._tailnet = tailnet
        self._within = within
        self._can_be_asked = can_be_asked
        self._given: dict[str, Rented] = {}  # by a key's secret: the machine that has it
        self._due: dict[str, float] = {}  # by a key's secret, of machines that are gone
        self._watched = 0  # keys whose end was looked at

    def made(self, rented: Rented) -> None:
        guest = guest_of(rented)
        if guest is not None and guest.auth_key:
            self._given[guest.auth_key] = rented

    def turned(self, rented: Rented, _before: Phase) -> None:
        if rented.machine.phase is not Phase.GONE:
            return
        for secret, machine in list(self._given.items()):
            if machine is rented:
                del self._given[secret]
                self._due[secret] = self.recorder.now + self._within

    def look(self, now: float) -> None:
        self._look_at_new_keys()
        if not self._can_be_asked():
            self._due = dict.fromkeys(self._due, now + self._within)
        for secret, due in list(self._due.items()):
            key = next(each for each in self._tailnet.keys.values() if each.secret == secret)
            seats = [seat for seat in self._tailnet.devices() if seat.key_id == key.id]
            if not seats and not self._tailnet.is_valid(key):
                del self._due[secret]
            elif now > due:
                del self._due[secret]
                left = ", ".join(seat.hostname for seat in seats) or f"the key {key.id}"
                self.blame(f"{left} is in the tailnet {self._within:.0f} s after its machine was gone")

    def _look_at_new_keys(self) -> None:
        keys = list(self._tailnet.keys.values())
        for key in keys[self._watched :]:
            self._judge(key)
        self._watched = len(keys)

    def _judge(self, key: AuthKey) -> None:
        """The answer may be lost: so the key has to expire by itself."""
        if key.reusable:
            self.blame(f"the key {key.id} lets in more than one machine")
        if (key.expires_at - key.created_at).total_seconds() > UNHEARD:
            self.blame(f"the key {key.id} lasts until {key.expires_at}, if its maker dies before it hears of it")


class ReadyIsConnected(Checker):
    """J5: what is called Ready is in the tailnet it was ordered for, by its own device, and its Node reached there."""

    invariant = "J5"

    def __init__(self, recorder: Recorder, tailnet: Tailnet) -> None:
        super().__init__(recorder)
        self._tailnet = tailnet

    def claimed(self, before: RecordedRequest | None, after: RecordedRequest | None) -> None:
        if after is None or not _is_ready(after) or (before is not None and _is_ready(before)) or after.copied:
            return
        for rented in self.recorder.of_uid(after.uid):
            guest = guest_of(rented)
            if guest is None or not guest.auth_key or not after.is_open(rented.text):
                continue
            key = next(each for each in self._tailnet.keys.values() if each.secret == guest.auth_key)
            seats = [seat for seat in self._tailnet.devices() if seat.key_id == key.id]
            node = self.recorder.world.api.local_api.get(NODE, "", after.node) or {}
            reached = {row["address"] for row in (node.get("status") or {}).get("addresses", ())}
            if not any(reached & set(seat.addresses) for seat in seats):
                self.blame(f"{after.name} is called Ready, and {after.node} is not reached in the tailnet")


class OnPaperFirst(Checker):
    """J6: a mesh's key, and a bootstrap token, is made only for a machine that is in the book already.

    After a crash another replica reads the record, and knows under which name to look.
    """

    invariant = "J6"

    def __init__(self, recorder: Recorder, control: str) -> None:
        super().__init__(recorder)
        self._control = control  # the endpoint at which keys are made

    def changing(self, exchange: Exchange) -> None:
        call = exchange.call
        if exchange.endpoint.name == self._control and call.method == "POST" and call.path.endswith("/keys"):
            named = msgspec.json.decode(call.body).get("description", "")
            if not any(named in (entry.node, entry.token) for entry in self._book()):
                self.blame(f"{exchange.who} had a key made for {named}, which is not in the book")

    def confided(self, before: Json | None, after: Json | None) -> None:
        made = standing_of(after) if before is None and after is not None else None
        if made is not None and not any(entry.token == made.token for entry in self._book()):
            self.blame(f"{made.name} was made for {made.token}, which is not in the book")

    def _book(self) -> list[JoinRecord]:
        page = self.recorder.world.api.local_api.get(CONFIG_MAP, self.recorder.namespace, JOIN_RECORDS) or {}
        entries = (read_line(line) for line in (page.get("data") or {}).values())
        return [entry for entry in entries if entry is not None]


class NothingShared(Checker):
    """J7: no machine is given an authority's key, or a token that is not its own; and hosts that a third party may own
    get nothing that other machines have, too.
    """

    invariant = "J7"

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder)
        self._tokens: dict[str, str] = {}  # by the secret part: the launch token it was made for
        self.configs = 0  # that were looked at

    def confided(self, before: Json | None, after: Json | None) -> None:
        made = standing_of(after) if before is None and after is not None else None
        if made is not None and after is not None:
            self._tokens[_plain(after, "token-secret")] = made.token

    def made(self, rented: Rented) -> None:
        for documents in (each for blob in _blobs(rented) for each in documents_in(blob)):
            self.configs += 1
            for found in overshared(documents, shared=not self._is_untrusted(rented)):
                self.blame(f"{found} is in what {rented} was ordered with")
            for token in _bootstrap_tokens(documents):
                if self._tokens.get(token.partition(".")[2]) != rented.text:
                    self.blame(f"a bootstrap token that is not its own is in what {rented} was ordered with")

    def _is_untrusted(self, rented: Rented) -> bool:
        claim = self.recorder.claims.get(rented.token.uid) if rented.token is not None else None
        row = claim.rows.get(rented.text, {}) if claim is not None else {}
        return bool((row.get("offer") or {}).get("untrusted"))


def overshared(documents: Iterable[Any], *, shared: bool = True) -> Iterator[str]:
    """Where a machine config says more than a worker needs. `shared`: it may have what every node has."""
    for document in documents:
        for path, value in _leaves(document):
            of_authority = path[-2:] in AUTHORITY_KEYS or path[-1] in ENCRYPTION_KEYS or _is_private_key(str(value))
            if value and (of_authority or (not shared and path in SHARED_BY_ALL)):
                yield ".".join(path)


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, (*path, str(name)))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _leaves(inner, (*path, str(number)))
    elif path:
        yield path, value


def _is_private_key(text: str) -> bool:
    try:
        plain = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        plain = b""
    return b"PRIVATE KEY" in plain or "PRIVATE KEY" in text


def _bootstrap_tokens(documents: Iterable[Any]) -> Iterator[str]:
    for document in documents:
        for path, value in _leaves(document):
            if path == ("cluster", "token") and value:
                yield str(value)


class JoinSecrets(NoCanary):
    """I21 again: nothing that lets a machine in is where others read it, except in the one Secret that is for it.

    The cluster's join values and every key and token as it is made. Names and tags at a provider are searched, too.
    """

    def __init__(self, recorder: Recorder, tailnet: Tailnet, canaries: Iterable[str] = ()) -> None:
        join = recorder.world.api.local_api.get(SECRET, recorder.namespace, JOIN_SECRET) or {}
        hidden = [_plain(join, name) for name in join.get("data") or () if not any(part in name for part in PUBLIC)]
        super().__init__(recorder, (*hidden, *canaries))
        self._tailnet = tailnet
        self._watched = 0

    @property
    def known(self) -> int:
        return self._watched

    def confided(self, before: Json | None, after: Json | None) -> None:
        if before is None and after is not None and standing_of(after) is not None:
            self.learn(_plain(after, "token-secret"))

    def look(self, _now: float) -> None:
        keys = list(self._tailnet.keys.values())
        for key in keys[self._watched :]:
            self.learn(key.secret)
        self._watched = len(keys)

    def made(self, rented: Rented) -> None:
        machine = rented.machine
        self.search(f"{machine.name} {dict(machine.tags)}".encode(), f"the name or a tag of {rented}")

    def changing(self, exchange: Exchange) -> None:
        path = exchange.call.path
        if exchange.endpoint.name == KUBERNETES and "/namespaces/kube-system/secrets" not in path:
            super().changing(exchange)


def guest_of(rented: Rented) -> TalosGuest | None:
    """The config of a machine; None: it has none."""
    return next((guest for blob in _blobs(rented) if (guest := guest_in(blob)) is not None), None)


def _blobs(rented: Rented) -> Iterator[bytes]:
    """Every text that its provider keeps of its order."""
    yield rented.machine.user_data
    for _, value in _leaves(dict(rented.machine.detail)):
        if isinstance(value, str):
            yield value.encode()


def _plain(secret: Json, name: str) -> str:
    return base64.b64decode(str((secret.get("data") or {}).get(name, ""))).decode()


def _is_approved(asked: Json) -> bool:
    rows = (asked.get("status") or {}).get("conditions") or ()
    return any(row.get("type") == APPROVED and row.get("status", "True") == "True" for row in rows)


def _is_ready(claim: RecordedRequest) -> bool:
    return claim.condition("Ready").get("status") == "True"
