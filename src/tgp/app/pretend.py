"""Whether a kubeconfig leads to a pretend cluster, whose providers pretend, too.

Only a plain-HTTP server on this machine's loopback that answers with pretend providers is one. A real cluster behind
`kubectl proxy` has the same kind of address; its API server has no such answer.
"""

from urllib.parse import urlsplit

from tgp.adapters.kube.config_field import ConfigInvalid
from tgp.adapters.kube.config_files import find_target
from tgp.app.connect import Connection, connect
from tgp.ports.http import Call, HttpError, Unreadable

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


def on_loopback(server: str) -> bool:
    parts = urlsplit(server)
    return parts.scheme == "http" and parts.hostname in LOOPBACK


async def pretends(connection: Connection) -> bool:
    if not on_loopback(connection.server):
        return False
    try:
        reply = await connection.http.send(Call("GET", "/_tgp/clouds"))
        return reply.ok and "clouds" in reply.json()
    except (HttpError, Unreadable, TypeError):
        return False


async def pretend_world(kubeconfig: str, context: str) -> str:
    """The address of the pretend cluster's own market; empty: the real market.

    A server elsewhere is not asked anything. Raises ConfigInvalid for a kubeconfig or context that was named.
    """
    try:
        if not on_loopback(find_target(kubeconfig, context).cluster.server):
            return ""
    except ConfigInvalid:
        if kubeconfig or context:
            raise
        return ""  # the market needs no cluster
    async with connect(kubeconfig, context) as connection:
        return connection.server.rstrip("/") if await pretends(connection) else ""
