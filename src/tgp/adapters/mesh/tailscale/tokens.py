"""Bearer tokens: fetched for an OAuth client, kept until shortly before they end, one fetch for all who wait."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol
from urllib.parse import urlencode

from tgp.adapters.mesh.answers import mapping_of
from tgp.adapters.mesh.line import Line
from tgp.adapters.mesh.tailscale.dialect import Dialect
from tgp.adapters.mesh.tailscale.errors import Verb, failure
from tgp.core.model.secret import Secret
from tgp.ports.clock import Clock
from tgp.ports.http import Call, Http, Reply
from tgp.ports.mesh import MeshBusy

PATH = "/api/v2/oauth/token"
RENEW_BEFORE = timedelta(minutes=5)  # so that no token ends between fetching it and its arrival with a slow call
LONGEST_LIFE = timedelta(hours=12)  # an hour is given; whatever else is said is not believed for longer
TOKEN_LONGEST = 4096  # characters


@dataclass(frozen=True, slots=True)
class Grant:
    """What a token may do, as the answer that brought it tells. None: it does not tell."""

    scopes: frozenset[str] | None = None
    tags: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Token:
    secret: Secret
    renew_at: float  # Clock.boottime
    grant: Grant


class Passes(Protocol):
    """The way to what stands after `Bearer`."""

    async def current(self) -> tuple[Secret, bool]:
        """A token, and whether another one would not be any better."""
        ...

    def forget(self, token: Secret) -> None: ...

    async def grant(self) -> Grant | None:
        """None: it may do everything."""
        ...

    @property
    def confidences(self) -> tuple[Secret, ...]: ...

    @property
    def made_to_last(self) -> bool:
        """False: whoever gives them out has just vouched for us, so a refusal of one is no refusal of us."""
        ...


class ApiKey:
    """A Headscale's own key: it is the token, for as long as it lives."""

    made_to_last = True

    def __init__(self, key: Secret) -> None:
        self._key = key

    async def current(self) -> tuple[Secret, bool]:
        return self._key, True

    def forget(self, token: Secret) -> None:
        """There is no other."""

    async def grant(self) -> Grant | None:
        return None

    @property
    def confidences(self) -> tuple[Secret, ...]:
        return (self._key,)


class Tokens:
    """The way from an OAuth client to a bearer token."""

    made_to_last = False

    def __init__(self, http: Http, dialect: Dialect, client_id: Secret, client_secret: Secret, clock: Clock) -> None:
        self._line = Line(http, dialect.title)
        self._dialect = dialect
        self._id = client_id
        self._secret = client_secret
        self._clock = clock
        self._kept: Token | None = None
        self._fetching: asyncio.Task[Token] | None = None

    @property
    def confidences(self) -> tuple[Secret, ...]:
        kept = (self._kept.secret,) if self._kept is not None else ()
        return (self._secret, *kept)

    async def current(self) -> tuple[Secret, bool]:
        token, fetched = await self._token()
        return token.secret, fetched

    async def grant(self) -> Grant | None:
        return (await self._token())[0].grant

    def forget(self, token: Secret) -> None:
        """It was not accepted: the next question fetches another, unless one is there already."""
        if self._kept is not None and self._kept.secret == token:
            self._kept = None

    async def _token(self) -> tuple[Token, bool]:
        """A token, and whether it was fetched for this very question. A failed fetch fails everybody who waits."""
        kept = self._kept
        if kept is not None and self._clock.boottime() < kept.renew_at:
            return kept, False
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._fetch(), name="mesh token")
            self._fetching.add_done_callback(self._done)
        # Shielded: one caller who gives up must not take the token from the others.
        return await asyncio.shield(self._fetching), True

    def _done(self, fetch: "asyncio.Task[Token]") -> None:
        self._fetching = None
        if not fetch.cancelled() and fetch.exception() is None:
            self._kept = fetch.result()

    async def _fetch(self) -> Token:
        began = self._clock.boottime()
        form = {
            "grant_type": "client_credentials",
            "client_id": self._id.reveal(),
            "client_secret": self._secret.reveal(),
        }
        headers = (("Content-Type", "application/x-www-form-urlencoded"),)
        reply = await self._line.send(Call("POST", PATH, headers=headers, body=urlencode(form).encode()))
        if not reply.ok:
            raise failure(reply, Verb.TOKEN, self._dialect, self.confidences)
        return read_token(reply, self._dialect.title, began)


def read_token(reply: Reply, title: str, began: float) -> Token:
    body = mapping_of(reply, title, Verb.TOKEN)
    token, lasts, kind = body.get("access_token"), body.get("expires_in"), body.get("token_type", "Bearer")
    if not is_fit(token) or not isinstance(kind, str) or kind.lower() != "bearer":
        raise MeshBusy(f"{title} answered without a bearer token")
    if isinstance(lasts, bool) or not isinstance(lasts, int | float) or not 0 < lasts < 1 << 31:
        raise MeshBusy(f"{title} does not say how long its token lasts")
    life = min(timedelta(seconds=lasts), LONGEST_LIFE)
    useful = life - min(RENEW_BEFORE, life / 2)
    return Token(Secret(str(token)), began + useful.total_seconds(), Grant(_words(body, "scope"), _words(body, "tags")))


def _words(body: dict[str, Any], name: str) -> frozenset[str] | None:
    value = body.get(name)
    return frozenset(value.split()) if isinstance(value, str) and value.strip() else None


def is_fit(value: object) -> bool:
    """For a header, and for one line of a machine config."""
    return (
        isinstance(value, str)
        and 0 < len(value) <= TOKEN_LONGEST
        and value.isascii()
        and value.isprintable()
        and " " not in value
    )
