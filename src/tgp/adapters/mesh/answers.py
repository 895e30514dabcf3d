"""Reads what control servers answer: whole and in their own shape, or not at all. An answer that proves nothing (HTML,
half a body, JSON of another shape) is `MeshBusy`, never an empty list.
"""

from typing import Any

from tgp.adapters.clouds.reading import goes_on, whatever_came
from tgp.ports.http import Reply, Unreadable
from tgp.ports.mesh import MeshBusy

WORDS = ("message", "error_description", "error", "detail", "title")  # Tailscale's, gRPC's, OAuth's, problem+json's

STRANGER = b"Unauthorized"  # Headscale's whole answer to a key that it does not know: the one refusal without JSON


def words_of(reply: Reply) -> str | None:
    """What the server itself says about a refusal; None: something in front of it may have answered."""
    if reply.status == 401 and reply.content.strip() == STRANGER:
        return STRANGER.decode()
    body = whatever_came(reply)
    if not isinstance(body, dict):
        return None
    return next((body[name] for name in WORDS if isinstance(body.get(name), str) and body[name]), None)


def mapping_of(reply: Reply, who: str, what: str) -> dict[str, Any]:
    try:
        body = reply.json()
    except Unreadable as error:
        # Not its cause: a decoder keeps the bytes that it stumbled over, and a key may be among them.
        raise MeshBusy(f"{who} answered {what} with something that is no JSON: {error}") from None
    if not isinstance(body, dict):
        raise MeshBusy(f"{who} answered {what} in a shape that nobody knows")
    return body


def rows_of(body: dict[str, Any], name: str, who: str) -> list[dict[str, Any]]:
    """A list that must be there, of objects: an answer without it is not an empty list.

    These APIs have no pages. One that comes to have them says so beside its list, which then is not whole.
    """
    rows = body.get(name)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise MeshBusy(f"{who} answered without a list `{name}`")
    if told := goes_on(body):
        raise MeshBusy(f"{who} answered with a list that goes on (`{told}`), and its pages are not known here")
    return rows
