"""Who may read a page: one TokenReview, then one SubjectAccessReview; the answers are kept for ten seconds.

An address that asks too often is refused before the API server is asked anything.
"""

import asyncio
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address

import msgspec

from tgp.core.access.rights import PageRight
from tgp.core.access.token import TOKEN_HEADER, digest
from tgp.core.access.user import KubeUser
from tgp.core.model.token_bucket import TokenBucket, TokenRate
from tgp.interfaces.web.pages import JSON_TYPE, ObjectMissing, WebPage, WebPages, page_at
from tgp.interfaces.web.questions import BadQuestion
from tgp.interfaces.web.shared_answers import SharedAnswers
from tgp.ports.cluster import ClusterError
from tgp.ports.http import Call, Pairs, Reply
from tgp.services.access import AccessService

PER_ADDRESS = TokenRate(per_second=20.0, burst=100)  # all commands behind one API server's proxy share an address
MOST_ADDRESSES = 4096
ALLOWED: Pairs = (("Allow", "GET, HEAD, OPTIONS"),)
REFUSED_BY_Q = frozenset({"q=0", "q=0.0", "q=0.00", "q=0.000"})
FOLLOWS = "this replica does not lead, so it has no prices and no plan; ask again to reach the one that does"
NETWORK_BITS = 64  # of an IPv6 address: the rest is its owner's to choose


class Gate:
    def __init__(
        self,
        access: AccessService,
        pages: WebPages,
        rate: TokenRate = PER_ADDRESS,
        *,
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        self._pages = pages
        self._leads = leads
        self._access = access
        self._addresses = AddressLimit(rate)
        self._users: SharedAnswers[bytes, KubeUser | str] = SharedAnswers()
        self._rights: SharedAnswers[tuple[bytes, PageRight], bool] = SharedAnswers()

    async def handle(self, call: Call) -> Reply:
        reply = await self._answer(call)
        self._access.answered(reply.status)
        return reply

    async def _answer(self, call: Call) -> Reply:
        if not self._addresses.passes(call.peer, asyncio.get_running_loop().time()):
            return problem(429, "too many requests from this address; try again in a second", ("Retry-After", "1"))
        token = _token(call)
        if not token:
            return _unauthorized(f"send a token of the cluster as Authorization: Bearer, or as {TOKEN_HEADER}")
        if not token.isascii():  # JSON has no form for some of these, and no token has any
            return _unauthorized("the token is not one of a cluster: it has characters that are not ASCII")
        try:
            user = await self._user(token)
            if user is None:
                return _unauthorized("the API server does not accept this token: it is not valid or has expired")
            return await self._page(call, token, user)
        except ClusterError:
            text = "the API server did not answer who you are and what you may read; try again"
            return problem(503, text, ("Retry-After", "1"))

    async def _user(self, token: str) -> KubeUser | None:
        async def ask() -> KubeUser | str:
            return await self._access.user_of(token) or ""

        found = await self._users.answer(digest(token), ask)
        return found if isinstance(found, KubeUser) else None

    async def _may(self, user: KubeUser, token: str, right: PageRight) -> bool:
        async def ask() -> bool:
            return await self._access.may(user, right)

        return await self._rights.answer((digest(token), right), ask)

    async def _page(self, call: Call, token: str, user: KubeUser) -> Reply:
        page = page_at(self._pages, call.path.rstrip("/") or "/")
        if page is None:
            return problem(404, f"not found; the paths are {', '.join(sorted(self._pages))}")
        if call.method == "OPTIONS":
            return Reply(204, b"", ALLOWED)
        if call.method not in ("GET", "HEAD"):
            return problem(405, f"only {ALLOWED[0][1]}", *ALLOWED)
        if not accepts(call.header("Accept"), page.about.content_type):
            return problem(406, f"the page is {page.about.content_type}, which Accept does not allow")
        try:
            right = page.right(call)
            if not await self._may(user, token, right):
                return problem(403, f"{user.name} may not {right}{_hint(page)}")
            if page.about.of_leader and not self._leads():
                return problem(503, FOLLOWS, ("Retry-After", "1"))
            return await page.answer(call)
        except BadQuestion as error:
            return problem(400, str(error))
        except ObjectMissing as error:
            return problem(404, str(error))


class AddressLimit:
    """A token bucket for each address; of those that were not seen for longest there are none left."""

    def __init__(self, rate: TokenRate, most: int = MOST_ADDRESSES) -> None:
        self._rate = rate
        self._most = most
        self._buckets: dict[str, TokenBucket] = {}

    def passes(self, address: str, now: float) -> bool:
        key = _network(address)
        bucket = self._buckets.pop(key, None) or TokenBucket(self._rate)
        self._buckets[key] = bucket  # last: the first is the one not seen for longest
        while len(self._buckets) > self._most:
            del self._buckets[next(iter(self._buckets))]
        return bucket.take(now)


def _network(address: str) -> str:
    """An IPv6 address counts as its network."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, IPv6Address) and found.ipv4_mapped is None:
        return str(int(found) >> NETWORK_BITS)
    return str(found)


def _token(call: Call) -> str:
    if said := call.header(TOKEN_HEADER).strip():
        return said
    scheme, _, token = call.header("Authorization").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def accepts(said: str, content_type: str) -> bool:
    """Whether an Accept header allows it; without one everything is."""
    kind = content_type.partition("/")[0]
    for part in said.split(","):
        media, *parameters = (each.strip().lower() for each in part.split(";"))
        refused = any(each.replace(" ", "") in REFUSED_BY_Q for each in parameters)
        if media in ("", content_type, f"{kind}/*", "*/*", "*") and not refused:
            return True
    return not said.strip()


def _hint(page: WebPage) -> str:
    return "; name a namespace of yours: ?namespace=NAME" if page.about.namespaced else ""


def _unauthorized(text: str) -> Reply:
    return problem(401, text, ("WWW-Authenticate", "Bearer"))


def problem(status: int, text: str, *headers: tuple[str, str]) -> Reply:
    return Reply(status, msgspec.json.encode({"code": status, "message": text}), (*JSON_TYPE, *headers))
