"""The API server: a `Call` in, a `Reply` or a stream out.

A request passes, in this order: injected faults, authentication (and impersonation), authorisation, its verb.
Nothing in between waits, so each request is one step as seen by every other.
"""

import asyncio
from collections.abc import Mapping
from datetime import datetime
from email.utils import format_datetime

from tgp.api.validation import PythonCheck, own_python_checks
from tgp.ports.clock import Clock
from tgp.ports.entropy import Entropy
from tgp.ports.http import Call, Reply, Streaming
from tgp.sim.apiserver.answers import warnings_of
from tgp.sim.apiserver.api_faults import after_the_verb, before_identity, before_the_verb, check_token_accepted
from tgp.sim.apiserver.authentication import Authentication
from tgp.sim.apiserver.bootstrap import stock
from tgp.sim.apiserver.builtin_kinds import BUILTIN
from tgp.sim.apiserver.core import Ask, Core
from tgp.sim.apiserver.discovery import Discovery
from tgp.sim.apiserver.faults import ApiFaults, Hit
from tgp.sim.apiserver.identity import ADMIN, ApiUser
from tgp.sim.apiserver.json_value import Json
from tgp.sim.apiserver.kinds.definitions import follow_definitions
from tgp.sim.apiserver.local_api import LocalApi
from tgp.sim.apiserver.openapi import OpenApi
from tgp.sim.apiserver.plain_paths import NOT_FOUND_PAGE, health
from tgp.sim.apiserver.rbac import AccessAttempt, authorize, refusal
from tgp.sim.apiserver.registry import Registry, Served
from tgp.sim.apiserver.requests import Logs, Request
from tgp.sim.apiserver.routes import Route, read_route
from tgp.sim.apiserver.schemas.protobuf import in_json
from tgp.sim.apiserver.semantics import Semantics
from tgp.sim.apiserver.status_errors import Failure, no_such_path
from tgp.sim.apiserver.storage import HISTORY_LIMIT, ObjectStorage, StorageSnapshot

NAME_FIELD = "metadata.name="


def no_logs(_pod: Json, _container: str) -> str:
    """Containers that print nothing."""
    return ""


class ApiServer:
    """`unidentified` is who comes without credentials: an administrator by default, as befits a private world.

    `python_checks` judges CEL rules of definitions that are not ours, by their text; a rule without one counts as met.

    Public rooms: `local_api` (in-process verbs), `registry`, `store`, `authentication` (tokens), `faults`, `logs`.
    """

    def __init__(
        self,
        clock: Clock,
        entropy: Entropy,
        *,
        semantics: Semantics | None = None,
        unidentified: ApiUser | None = ADMIN,
        history_limit: int = HISTORY_LIMIT,
        python_checks: Mapping[str, PythonCheck] | None = None,
    ) -> None:
        self.store = ObjectStorage(clock, history_limit=history_limit)
        self.registry = Registry(BUILTIN)
        self.core = Core(clock, entropy, self.store, self.registry, semantics or Semantics())
        if python_checks is not None:
            self.core.python_checks = {**own_python_checks(), **python_checks}
        self.authentication = Authentication(self.core, unidentified)
        self.faults = ApiFaults(entropy)
        self.faults.when_changed.append(self.store.ring_all)
        self.logs: Logs = no_logs
        self.local_api = LocalApi(self.core)
        self._discovery = Discovery(self.registry)
        self._openapi = OpenApi(self.registry)
        self._date = HttpDate()
        follow_definitions(self.core)
        stock(self.core)
        for served in self.registry:
            self.store.kind_storage(served.storage).born = self.store.revision

    def snapshot(self) -> StorageSnapshot:
        """A backup of everything, to be restored later."""
        return self.store.snapshot()

    def restore(self, snapshot: StorageSnapshot) -> None:
        """Its etcd is restored and the server started again: every watch ends, and its revision goes back."""
        before = self.store.snapshot()
        self.store.restore(snapshot)
        for served in self.registry:
            was, is_now = (each.records.get(served.storage, {}) for each in (before, snapshot))
            for key in sorted(was.keys() | is_now.keys()):
                old, new = was.get(key), is_now.get(key)
                if old is not new:
                    for hook in self.core.hooks:
                        hook(served, old.obj if old is not None else None, new.obj if new is not None else None)

    async def handle(self, call: Call) -> Reply | Streaming:
        """Answer one request. Never raises for what is wrong with it: that becomes a `Status`."""
        await asyncio.sleep(0)  # an answer never comes before its question has left the caller's hands
        try:
            done = self.answer(call)
        except Failure as failure:
            done = failure.as_reply()
        return self._dated(done)

    def _dated(self, done: Reply | Streaming) -> Reply | Streaming:
        headers = (*done.headers, ("Date", self._date.text(self.core.now())))
        if isinstance(done, Streaming):
            return Streaming(done.status, headers, done.pieces)
        return Reply(done.status, done.content, headers)

    def answer(self, call: Call) -> Reply | Streaming:
        """The same at once; a refusal raises `Failure`."""
        route = read_route(call)
        agent = call.header("User-Agent")
        hit = Hit(route, None, agent)
        shed = before_identity(self.faults, hit)
        if shed is not None:
            return shed
        check_token_accepted(self.faults, hit)
        user = self.authentication.identify(call)
        if not route.is_resource:
            return self._plain(call, user)
        attempt = attempt_of(call, route)
        if not authorize(self.core, user, attempt).allowed:
            raise refusal(user, attempt)
        served = self.registry.find(route.group, route.version, route.plural)
        if served is None:
            return self._unknown_resource(route)
        return self._serve(call, route, served, user, Hit(route, user, agent))

    def _unknown_resource(self, route: Route) -> Reply:
        """Built-in groups answer for every path below them; custom ones only for what they serve."""
        if not route.group or any(known.group == route.group and not known.custom for known in self.registry):
            raise no_such_path()
        return NOT_FOUND_PAGE

    def _serve(self, call: Call, route: Route, served: Served, user: ApiUser, hit: Hit) -> Reply | Streaming:
        before_the_verb(self.faults, hit, served)
        call = in_json(call)
        request = Request(self.core, self.authentication, self.faults, self.logs, call, route, served, Ask(user), hit)
        try:
            done = request.answer()
        except Failure as failure:
            failure.headers += warnings_of(request.ask)
            raise
        after_the_verb(self.faults, hit)
        return done

    def _plain(self, call: Call, user: ApiUser) -> Reply:
        verb = "get" if call.method in {"GET", "HEAD"} else call.method.lower()
        attempt = AccessAttempt(verb, path=call.path)
        healthy = health(call)
        if healthy is not None:
            return healthy  # --authorization-always-allow-paths
        if not authorize(self.core, user, attempt).allowed:
            raise refusal(user, attempt)
        found = self._discovery.answer(call) or self._openapi.answer(call)
        if found is None and call.path.startswith("/api/"):
            raise no_such_path()
        return found or NOT_FOUND_PAGE


def attempt_of(call: Call, route: Route) -> AccessAttempt:
    """What authorisation is asked: a list of one name counts as being about that name."""
    name = route.name
    selector = call.parameter("fieldSelector")
    if not name and selector.startswith(NAME_FIELD) and "," not in selector:
        name = selector.removeprefix(NAME_FIELD).removeprefix("=")
    return AccessAttempt(route.verb, route.group, route.plural, route.subresource, name, route.namespace)


class HttpDate:
    def __init__(self) -> None:
        self._second: tuple[int, ...] = ()
        self._text = ""

    def text(self, now: datetime) -> str:
        second = (now.year, now.month, now.day, now.hour, now.minute, now.second)
        if second != self._second:
            self._second, self._text = second, format_datetime(now.replace(microsecond=0), usegmt=True)
        return self._text
