"""Bootstrap tokens: one Secret in kube-system per machine, with which only its kubelet may request to join.

The id is derived from the launch token, so nothing has to be stored: leftovers of a crash are found again by
name. Secrets there are read, written and deleted one by one; they are neither listed nor watched.
"""

import binascii
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any

import msgspec

from tgp.api.resource import SECRET
from tgp.api.values import rfc3339
from tgp.core.joining.csr import Bearer
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.secret import Secret
from tgp.core.model.signing import TOKEN_GROUP
from tgp.ports.boot import BootRefused
from tgp.ports.clock import Clock
from tgp.ports.cluster import AlreadyExists, Cluster, ClusterBusy, Conflict, NotFound
from tgp.ports.entropy import Entropy

NAMESPACE = "kube-system"  # the only namespace that the API server reads them from
TYPE = "bootstrap.kubernetes.io/token"
NODE_ANNOTATION = "tgp.io/node"
TOKEN_ANNOTATION = "tgp.io/token"  # noqa: S105 - the name of an annotation; its value is the launch token of the machine
USED_ANNOTATION = "tgp.io/used-by"  # uid and name of the one request it was used for
ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
ID_LENGTH, SECRET_LENGTH = 6, 16  # as in Kubernetes: 83 bits of entropy in the second
CHOICES = 3  # ids that one machine's token may have: foreign Secrets under all of them are no accident
MOST_REMEMBERED = 4096  # launch tokens whose Secrets are deleted without being read first
TRIES = 4  # of one id, when another client changes the same Secret


class TokenSecret(msgspec.Struct, frozen=True):
    """The Secret of one of our tokens, with what a conditional write needs."""

    bearer: Bearer
    secret: Secret  # id.secret
    key: ObjectKey
    uid: str
    resource_version: str


class BootstrapTokens:
    """Only the leader calls it. After a ClusterError the same call can be repeated.

    `clock` is the cluster's time, by which the API server judges expiry. `learn` tells the redactor what must
    never be printed.
    """

    def __init__(
        self, cluster: Cluster, entropy: Entropy, clock: Clock, learn: Callable[[Secret], None] = lambda _secret: None
    ) -> None:
        self._cluster = cluster
        self._entropy = entropy
        self._clock = clock
        self._learn = learn
        # By launch token: every Secret that this process created for it, with its uid. None: perhaps not every one.
        self._made: dict[str, dict[ObjectKey, str] | None] = {}

    async def mint(self, token: str, node_name: str, expires_at: datetime) -> Secret:
        """`id.secret`, valid for one Node until then. A repeated call returns the same one until it is used.

        Raises BootRefused if it was used: its machine has joined.
        """
        for token_id in ids_of(token):
            minted = await self._mint(token_id, token, node_name, expires_at)
            if minted is not None:
                self._learn(minted)
                return minted
        raise BootRefused(
            "TokenTaken", f"Secrets that tgp did not create in {NAMESPACE} use every bootstrap token id of {token}"
        )

    async def extend(self, token: str, expires_at: datetime) -> bool:
        """Extend the expiry to then, if that is later. False: there is no such token any more."""
        for _ in range(TRIES):
            found = await self._of(token)
            if found is None:
                return False
            if found.bearer.expires_at >= _whole(expires_at):
                return True
            try:
                await self._change(found, {"data": {"expiration": _coded(rfc3339(_whole(expires_at)))}})
            except (Conflict, NotFound):
                continue
            return True
        raise ClusterBusy(f"the bootstrap token of {token} is being changed by another client; retrying")

    async def remove(self, token: str) -> None:
        """Revoke the token. Repeatable; also for a token that was never made."""
        if made := self._made.get(token):
            for key, uid in made.items():
                await self._delete(key, uid)
        else:
            for token_id in ids_of(token):
                found = await self.look(token_id)
                if found is not None and found.bearer.token == token:
                    await self._delete(found.key, found.uid)
        self._made.pop(token, None)

    async def owner_of(self, token_id: str) -> str | None:
        """The Node that the token was made for; None: there is no such token, or it is not ours."""
        found = await self.look(token_id)
        return None if found is None else found.bearer.node

    async def look(self, token_id: str) -> TokenSecret | None:
        """Read from the API server. None: there is none, or it is not ours."""
        return (await self._standing(token_id))[1]

    async def use(self, found: TokenSecret, uid: str, name: str) -> None:
        """Record the request that uses the token before it is approved; Conflict if anything changed since.

        Of two requests with one token, across replicas and crashes, only one can be recorded.
        """
        assert found.bearer.used_by in ("", uid), "already used"
        if not found.bearer.used_by:
            await self._change(found, {"metadata": {"annotations": {USED_ANNOTATION: f"{uid} {name}"}}})

    async def _of(self, token: str) -> TokenSecret | None:
        for token_id in ids_of(token):
            found = await self.look(token_id)
            if found is not None and found.bearer.token == token:
                return found
        return None

    async def _mint(self, token_id: str, token: str, node_name: str, expires_at: datetime) -> Secret | None:
        """None: the name is taken by a foreign Secret."""
        for _ in range(TRIES):
            if made := await self._create(token_id, token, node_name, expires_at):
                return made
            there, found = await self._standing(token_id)
            if not there:
                continue
            if found is None or found.bearer.token != token:
                return None
            if found.bearer.used_by:
                raise BootRefused(
                    "TokenUsed", f"the bootstrap token of {token} was already used: its machine has joined"
                )
            fresh = found.bearer.expires_at > self._clock.now() and found.bearer.node == node_name
            if fresh and await self.extend(token, expires_at):
                return found.secret
            await self._delete(
                found.key, found.uid
            )  # an old one is deleted: the cluster's token cleaner may be about to remove it
        raise ClusterBusy(f"Secret bootstrap-token-{token_id} was deleted and recreated concurrently; retrying")

    async def _create(self, token_id: str, token: str, node_name: str, expires_at: datetime) -> Secret | None:
        """None: one of that name exists."""
        secret, key = "".join(self._letters(SECRET_LENGTH)), _key(token_id)
        made = self._made.get(token, {})
        self._remember(token, None)  # until the outcome is known
        try:
            manifest = _manifest(token_id, secret, token, node_name, _whole(expires_at))
            written = await self._cluster.create(SECRET, manifest)
        except AlreadyExists:
            if made is not None and key in made:
                self._remember(token, made)
            return None
        if made is not None:
            self._remember(token, {**made, key: written.uid})
        return Secret(f"{token_id}.{secret}")

    def _remember(self, token: str, made: dict[ObjectKey, str] | None) -> None:
        self._made[token] = made
        if len(self._made) > MOST_REMEMBERED:
            del self._made[next(iter(self._made))]

    async def _standing(self, token_id: str) -> tuple[bool, TokenSecret | None]:
        """Whether a Secret of that name exists, and its content if it is ours."""
        key = _key(token_id)
        try:
            return True, _read(token_id, key, await self._cluster.read(SECRET, key))
        except NotFound:
            return False, None

    async def _change(self, found: TokenSecret, change: Mapping[str, Any]) -> None:
        await self._cluster.patch(SECRET, found.key, change, resource_version=found.resource_version, uid=found.uid)

    async def _delete(self, key: ObjectKey, uid: str) -> None:
        try:
            await self._cluster.delete(SECRET, key, uid=uid)
        except Conflict:
            return  # another Secret has that name by now: ours is gone

    def _letters(self, count: int) -> list[str]:
        """Uniformly distributed: bytes beyond the last whole multiple of the alphabet are drawn again."""
        fair = 256 - 256 % len(ALPHABET)
        letters: list[str] = []
        while len(letters) < count:
            drawn = self._entropy.token(2 * count)
            letters += [ALPHABET[byte % len(ALPHABET)] for byte in drawn if byte < fair]
        return letters[:count]


def ids_of(token: str) -> tuple[str, ...]:
    """The ids that a launch token's bootstrap token may have, the usual one first. Not secret, and no part of one."""
    return tuple(_id(f"tgp bootstrap token\n{token}\n{number}") for number in range(CHOICES))


def _key(token_id: str) -> ObjectKey:
    return ObjectKey(NAMESPACE, f"bootstrap-token-{token_id}")


def _id(text: str) -> str:
    number, letters = int.from_bytes(sha256(text.encode()).digest()), ""
    for _ in range(ID_LENGTH):
        number, rest = divmod(number, len(ALPHABET))
        letters += ALPHABET[rest]
    return letters


def _manifest(token_id: str, secret: str, token: str, node: str, expires_at: datetime) -> dict[str, Any]:
    data = {
        "token-id": token_id,
        "token-secret": secret,
        "expiration": rfc3339(expires_at),
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": TOKEN_GROUP,
        "description": f"for Node {node}, made by tgp",
    }
    return {
        "metadata": {
            "namespace": NAMESPACE,
            "name": f"bootstrap-token-{token_id}",
            "labels": {"app.kubernetes.io/managed-by": "tgp-operator"},
            "annotations": {NODE_ANNOTATION: node, TOKEN_ANNOTATION: token},
        },
        "type": TYPE,
        "data": {name: _coded(value) for name, value in data.items()},
    }


def _read(token_id: str, key: ObjectKey, stored: Mapping[str, Any]) -> TokenSecret | None:
    """None: not a token of ours. An incomplete one counts as foreign."""
    meta = stored["metadata"]
    notes = meta.get("annotations") or {}
    token, node = notes.get(TOKEN_ANNOTATION, ""), notes.get(NODE_ANNOTATION, "")
    data = {name: _plain(value) for name, value in (stored.get("data") or {}).items()}
    if stored.get("type") != TYPE or not token or not node or data.get("auth-extra-groups") != TOKEN_GROUP:
        return None
    try:
        expires_at = datetime.fromisoformat(data.get("expiration", ""))
    except ValueError:
        return None
    secret = data.get("token-secret", "")
    if expires_at.tzinfo is None or data.get("token-id") != token_id or not secret:
        return None
    bearer = Bearer(token_id, token, node, expires_at, str(notes.get(USED_ANNOTATION, "")).partition(" ")[0])
    return TokenSecret(bearer, Secret(f"{token_id}.{secret}"), key, str(meta["uid"]), str(meta["resourceVersion"]))


def _whole(moment: datetime) -> datetime:
    """Whole seconds, as they are written."""
    return moment.replace(microsecond=0)


def _coded(text: str) -> str:
    return b64encode(text.encode()).decode()


def _plain(coded: object) -> str:
    try:
        return b64decode(str(coded), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
