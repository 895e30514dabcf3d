"""The operator's HTTP API, read from a terminal: through the API server's proxy, so that nothing has to be exposed.

The proxy takes the Authorization header away. So a token of ServiceAccount tgp-viewer is asked for, good for ten
minutes and for the operator alone, and sent in a header of our own.
"""

import asyncio
from datetime import timedelta
from typing import Any

import msgspec

from tgp.adapters.kube.errors import error_for
from tgp.api.resource import SERVICE, SERVICE_ACCOUNT
from tgp.core.access.token import AUDIENCE, TOKEN_HEADER, TOKEN_LIFE
from tgp.core.model.secret import Secret
from tgp.ports.cluster import ClusterError
from tgp.ports.http import Call, Http, HttpError, Pairs, Reply, UnreadableReply

VIEWER = "tgp-viewer"
ADDRESS = "https:tgp-operator:https"  # scheme, Service and port, as the proxy wants them
ASK_WITHIN = timedelta(seconds=5)  # for each call: the user waits
REPLICAS_TRIED = 8  # of two replicas each try finds the leader by half: all miss it once in 500 commands
SHOWN = 200  # characters of a refusal


class OperatorOutOfReach(Exception):
    """The operator did not answer, or not to this user. The text says why."""


class OperatorApi:
    def __init__(self, http: Http, namespace: str) -> None:
        self._http = http
        self._namespace = namespace  # the operator's
        self._token: Secret | None = None
        self._good_until = 0.0  # loop time

    async def read(self, path: str, query: Pairs) -> Any:
        """The JSON document at the path. Raises OperatorOutOfReach."""
        try:
            reply = await self._ask(path, query, await self._current_token())
            return reply.json()
        except (HttpError, ClusterError, UnreadableReply, KeyError, TypeError) as error:
            raise OperatorOutOfReach(str(error)[:SHOWN] or type(error).__name__) from error

    async def _ask(self, path: str, query: Pairs, token: Secret) -> Reply:
        target = f"{SERVICE.path(self._namespace)}/{ADDRESS}/proxy{path}"
        headers = ((TOKEN_HEADER, token.reveal()), ("Accept", "application/json"))
        call = Call("GET", target, query=query, headers=headers, timeout=ASK_WITHIN)
        reply = await self._http.send(call)
        for _ in range(REPLICAS_TRIED):  # the proxy takes any replica, and some pages only the leader has
            if reply.status != 503 or not reply.text("message"):
                break
            reply = await self._http.send(call)
        if reply.ok:
            return reply
        if said := reply.text("message"):
            raise ClusterError(f"it answered {reply.status}: {said}")
        raise error_for(reply, "asking the operator", changes=False)

    async def _current_token(self) -> Secret:
        """The same one for half of its life."""
        now = asyncio.get_running_loop().time()
        if self._token is None or now >= self._good_until:
            self._token = await self._new_token()
            self._good_until = now + TOKEN_LIFE.total_seconds() / 2
        return self._token

    async def _new_token(self) -> Secret:
        spec = {"audiences": [AUDIENCE], "expirationSeconds": int(TOKEN_LIFE.total_seconds())}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        call = Call(
            "POST",
            SERVICE_ACCOUNT.path(self._namespace, VIEWER, "token"),
            headers=(("Content-Type", "application/json"), ("Accept", "application/json")),
            body=msgspec.json.encode(body),
            timeout=ASK_WITHIN,
        )
        deed = f"asking for a token of ServiceAccount {self._namespace}/{VIEWER}"
        reply = await self._http.send(call)
        if not reply.ok:
            raise error_for(reply, deed, changes=True)
        return Secret(str(reply.json()["status"]["token"]))
