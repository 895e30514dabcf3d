"""Access tokens: fetched for a signed statement, kept until shortly before they end, one fetch for all who wait."""

import asyncio
import re
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

from tgp.adapters.clouds.gcp.account import ServiceAccount
from tgp.adapters.clouds.gcp.facts import FACTS
from tgp.adapters.clouds.parse import mapping_of
from tgp.adapters.clouds.sender import Sender
from tgp.core.model.cloud_errors import CannotTell, CloudBusy, KeyRefused
from tgp.core.model.secret import Secret
from tgp.ports.clock import Clock
from tgp.ports.http import Call, HttpFactory, Reply

RENEW_BEFORE = timedelta(minutes=5)  # so that no token ends between fetching it and its arrival with a slow call
LONGEST_LIFE = timedelta(hours=12)  # Google gives an hour, twelve where an organisation allows it
TOKEN_LONGEST = 4096  # characters; Google says that 2,048 may come
GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
CODE = re.compile(r"[a-z_]{1,40}\Z")  # of RFC 6749, section 5.2
NEVER = frozenset({"invalid_grant", "invalid_client", "unauthorized_client", "invalid_scope", "access_denied"})


@dataclass(frozen=True, slots=True)
class GcpToken:
    secret: Secret
    renew_at: float  # Clock.boottime


class GcpTokens:
    """The way from a service account to a bearer token."""

    def __init__(self, account: ServiceAccount, dial: HttpFactory, clock: Clock) -> None:
        parts = urlsplit(account.token_uri)
        self._account = account
        self._clock = clock
        self._path = parts.path or "/"
        self._sender = Sender(dial(f"{parts.scheme}://{parts.netloc}"), f"{FACTS.title} (token)")
        self._kept: GcpToken | None = None
        self._fetching: asyncio.Task[GcpToken] | None = None

    async def current(self) -> tuple[Secret, bool]:
        """A token, and whether it was fetched for this very call. A failed fetch fails all waiting callers."""
        kept = self._kept
        if kept is not None and self._clock.boottime() < kept.renew_at:
            return kept.secret, False
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._fetch(), name="gcp token")
            self._fetching.add_done_callback(self._done)
        # Shielded: a cancelled caller must not cancel the fetch for the others.
        return (await asyncio.shield(self._fetching)).secret, True

    def forget(self, token: Secret) -> None:
        """The token was refused: the next call fetches another, unless there is a newer one already."""
        if self._kept is not None and self._kept.secret == token:
            self._kept = None

    def _done(self, fetch: "asyncio.Task[GcpToken]") -> None:
        self._fetching = None
        if not fetch.cancelled() and fetch.exception() is None:
            self._kept = fetch.result()

    async def _fetch(self) -> GcpToken:
        """A fetch is free and repeatable: without an answer it is tried again."""
        began = self._clock.boottime()
        form = urlencode({"grant_type": GRANT, "assertion": assertion(self._account, self._clock.now())})
        headers = (("Content-Type", "application/x-www-form-urlencoded"),)
        reply = await self._sender.look(Call("POST", self._path, headers=headers, body=form.encode()))
        secret, lasts = read_token(reply)
        life = lasts - min(RENEW_BEFORE, lasts / 2)
        return GcpToken(secret, began + life.total_seconds())


def read_token(reply: Reply) -> tuple[Secret, timedelta]:
    """A token and how long it lasts. Of a refusal only Google's code is shown: its text may quote the assertion."""
    if reply.status == 429 or reply.status >= 500:
        raise CloudBusy(f"{FACTS.title} issues no tokens at the moment ({reply.status})", reply.retry_after)
    body = mapping_of(reply, f"{FACTS.title} (token)")
    if reply.status != 200:
        code = body.get("error")
        if isinstance(code, str) and code in NEVER:
            raise KeyRefused(
                f"{FACTS.title} issues no token for this service account ({code}): the key was deleted or disabled, "
                "or this machine's clock is wrong"
            )
        told = code if isinstance(code, str) and CODE.match(code) else "no code"
        raise CannotTell(f"{FACTS.title} answered {reply.status} for a token: {told}")
    token, lasts, kind = body.get("access_token"), body.get("expires_in"), body.get("token_type")
    if not _is_token(token) or not isinstance(kind, str) or kind.lower() != "bearer":
        raise CannotTell(f"{FACTS.title} answered without a bearer token")
    if isinstance(lasts, bool) or not isinstance(lasts, int | float) or not 0 < lasts < 1 << 31:
        raise CannotTell(f"{FACTS.title} sent a token without a lifetime")
    return Secret(str(token)), min(timedelta(seconds=lasts), LONGEST_LIFE)


def _is_token(value: object) -> bool:
    """Valid in a header."""
    return isinstance(value, str) and 0 < len(value) <= TOKEN_LONGEST and value.isascii() and value.isprintable()


SCOPE = "https://www.googleapis.com/auth/cloud-platform"  # the account's roles limit this


LIFETIME = timedelta(hours=1)  # the longest that is accepted


def assertion(account: ServiceAccount, now: datetime) -> str:
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.hashes import SHA256

    issued = int(now.timestamp())
    claims = {
        "iss": account.email,
        "scope": SCOPE,
        "aud": account.token_uri,
        "iat": issued,
        "exp": issued + int(LIFETIME.total_seconds()),
    }
    header = {"alg": "RS256", "typ": "JWT", "kid": account.key_id}
    stated = f"{_part(header)}.{_part(claims)}"
    signature = account.private_key.sign(stated.encode(), PKCS1v15(), SHA256())
    return f"{stated}.{_plain(signature)}"


def _part(value: dict[str, Any]) -> str:
    return _plain(msgspec.json.encode(value))


def _plain(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()
