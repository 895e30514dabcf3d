"""Parses the answers of control servers: complete and in their own format, or an error. An unusable answer (HTML,
half a body, JSON of another format) is `MeshBusy`, never an empty list.
"""

from typing import Any

from tgp.adapters.clouds.parse import goes_on, whatever_came
from tgp.ports.http import Reply, UnreadableReply
from tgp.ports.mesh import MeshBusy

WORDS = ("message", "error_description", "error", "detail", "title")  # Tailscale's, gRPC's, OAuth's, problem+json's

STRANGER = b"Unauthorized"  # Headscale's whole answer to an unknown key: the only refusal without JSON


def words_of(reply: Reply) -> str | None:
    """The server's own error text; None: a proxy may have answered."""
    if reply.status == 401 and reply.content.strip() == STRANGER:
        return STRANGER.decode()
    body = whatever_came(reply)
    if not isinstance(body, dict):
        return None
    return next((body[name] for name in WORDS if isinstance(body.get(name), str) and body[name]), None)


def mapping_of(reply: Reply, who: str, what: str) -> dict[str, Any]:
    try:
        body = reply.json()
    except UnreadableReply as error:
        # Without the cause: a decoder keeps the offending bytes, and a key may be among them.
        raise MeshBusy(f"{who} answered {what} with a body that is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise MeshBusy(f"{who} answered {what} in an unknown format")
    return body


def rows_of(body: dict[str, Any], name: str, who: str) -> list[dict[str, Any]]:
    """A required list of objects: an answer without it is not an empty list.

    These APIs have no pages. If one adds them, a field beside the list shows it, and the list is partial.
    """
    rows = body.get(name)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise MeshBusy(f"{who} answered without a list `{name}`")
    if told := goes_on(body):
        raise MeshBusy(f"{who} answered with a partial list (`{told}`); tgp does not know how to read its next pages")
    return rows
