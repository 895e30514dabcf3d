"""Bearer tokens: fetched for an OAuth client, kept until shortly before they expire, one fetch for all waiting
callers.
"""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol
from urllib.parse import urlencode

from tgp.adapters.mesh.parse import mapping_of
from tgp.adapters.mesh.sender import MeshSender
from tgp.adapters.mesh.tailscale.errors import TailscaleVerb, failure
from tgp.adapters.mesh.tailscale.server_flavour import ServerFlavour
from tgp.core.model.secret import Secret
from tgp.ports.clock import Clock
from tgp.ports.http import Call, Http, Reply
from tgp.ports.mesh import MeshBusy

PATH = "/api/v2/oauth/token"
RENEW_BEFORE = timedelta(minutes=5)  # so that no token expires during a slow call
LONGEST_LIFE = timedelta(hours=12)  # usually an hour; a longer lifetime in the answer is cut to this
TOKEN_LONGEST = 4096  # characters


@dataclass(frozen=True, slots=True)
class TokenScopes:
    """What a token may do, as its answer says. None: unknown."""

    scopes: frozenset[str] | None = None
    tags: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class TailscaleToken:
    secret: Secret
    renew_at: float  # Clock.boottime
    grant: TokenScopes


class TokenSource(Protocol):
    """Gives the value after `Bearer`."""

    async def current(self) -> tuple[Secret, bool]:
        """A token, and whether it is fresh, so that another one would not help."""
        ...

    def forget(self, token: Secret) -> None: ...

    async def grant(self) -> TokenScopes | None:
        """None: no restriction."""
        ...

    @property
    def confidences(self) -> tuple[Secret, ...]: ...

    @property
    def made_to_last(self) -> bool:
        """False: the server has just issued the token, so a refused token does not mean refused credentials."""
        ...


class ApiKey:
    """A Headscale's own key: the key is the token until it expires."""

    made_to_last = True

    def __init__(self, key: Secret) -> None:
        self._key = key

    async def current(self) -> tuple[Secret, bool]:
        return self._key, True

    def forget(self, token: Secret) -> None:
        """There is no other."""

    async def grant(self) -> TokenScopes | None:
        return None

    @property
    def confidences(self) -> tuple[Secret, ...]:
        return (self._key,)


class OauthTokens:
    """Exchanges an OAuth client for bearer tokens."""

    made_to_last = False

    def __init__(
        self, http: Http, dialect: ServerFlavour, client_id: Secret, client_secret: Secret, clock: Clock
    ) -> None:
        self._line = MeshSender(http, dialect.title)
        self._dialect = dialect
        self._id = client_id
        self._secret = client_secret
        self._clock = clock
        self._kept: TailscaleToken | None = None
        self._fetching: asyncio.Task[TailscaleToken] | None = None

    @property
    def confidences(self) -> tuple[Secret, ...]:
        kept = (self._kept.secret,) if self._kept is not None else ()
        return (self._secret, *kept)

    async def current(self) -> tuple[Secret, bool]:
        token, fetched = await self._token()
        return token.secret, fetched

    async def grant(self) -> TokenScopes | None:
        return (await self._token())[0].grant

    def forget(self, token: Secret) -> None:
        """The token was refused: the next call fetches another, unless there is a newer one already."""
        if self._kept is not None and self._kept.secret == token:
            self._kept = None

    async def _token(self) -> tuple[TailscaleToken, bool]:
        """A token, and whether it was fetched for this very call. A failed fetch fails all waiting callers."""
        kept = self._kept
        if kept is not None and self._clock.boottime() < kept.renew_at:
            return kept, False
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._fetch(), name="mesh token")
            self._fetching.add_done_callback(self._done)
        # Shielded: a cancelled caller must not cancel the fetch for the others.
        return await asyncio.shield(self._fetching), True

    def _done(self, fetch: "asyncio.Task[TailscaleToken]") -> None:
        self._fetching = None
        if not fetch.cancelled() and fetch.exception() is None:
            self._kept = fetch.result()

    async def _fetch(self) -> TailscaleToken:
        began = self._clock.boottime()
        form = {
            "grant_type": "client_credentials",
            "client_id": self._id.reveal(),
            "client_secret": self._secret.reveal(),
        }
        headers = (("Content-Type", "application/x-www-form-urlencoded"),)
        reply = await self._line.send(Call("POST", PATH, headers=headers, body=urlencode(form).encode()))
        if not reply.ok:
            raise failure(reply, TailscaleVerb.TOKEN, self._dialect, self.confidences)
        return read_token(reply, self._dialect.title, began)


def read_token(reply: Reply, title: str, began: float) -> TailscaleToken:
    body = mapping_of(reply, title, TailscaleVerb.TOKEN)
    token, lasts, kind = body.get("access_token"), body.get("expires_in"), body.get("token_type", "Bearer")
    if not is_fit(token) or not isinstance(kind, str) or kind.lower() != "bearer":
        raise MeshBusy(f"{title} answered without a bearer token")
    if isinstance(lasts, bool) or not isinstance(lasts, int | float) or not 0 < lasts < 1 << 31:
        raise MeshBusy(f"{title} sent a token without a lifetime")
    life = min(timedelta(seconds=lasts), LONGEST_LIFE)
    useful = life - min(RENEW_BEFORE, life / 2)
    return TailscaleToken(
        Secret(str(token)), began + useful.total_seconds(), TokenScopes(_words(body, "scope"), _words(body, "tags"))
    )


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
