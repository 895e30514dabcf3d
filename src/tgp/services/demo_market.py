"""Whether a kubeconfig names a demo cluster, whose providers are simulated.

That is a plain-HTTP server on loopback that lists simulated providers. A real cluster behind `kubectl proxy` has the
same kind of address, but its API server does not answer that path.
"""

from urllib.parse import urlsplit

from tgp.adapters.kube.config_field import ConfigInvalid
from tgp.adapters.kube.config_files import find_target
from tgp.adapters.kube.connect import Connection, connect
from tgp.ports.http import Call, HttpError, UnreadableReply

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


def on_loopback(server: str) -> bool:
    parts = urlsplit(server)
    return parts.scheme == "http" and parts.hostname in LOOPBACK


async def is_demo(connection: Connection) -> bool:
    if not on_loopback(connection.server):
        return False
    try:
        reply = await connection.http.send(Call("GET", "/_tgp/clouds"))
        return reply.ok and "clouds" in reply.json()
    except (HttpError, UnreadableReply, TypeError):
        return False


async def demo_market_url(kubeconfig: str, context: str) -> str:
    """The URL of the demo cluster's own market; empty: the real market.

    A server that is not on loopback is not contacted. Raises ConfigInvalid for a kubeconfig or context that was named.
    """
    try:
        if not on_loopback(find_target(kubeconfig, context).cluster.server):
            return ""
    except ConfigInvalid:
        if kubeconfig or context:
            raise
        return ""  # the market needs no cluster
    async with connect(kubeconfig, context) as connection:
        return connection.server.rstrip("/") if await is_demo(connection) else ""
