"""Vultr's image store: snapshots imported from the URL of a raw disk. Implements `ImageStore`."""

from typing import Any
from urllib.parse import quote

from tgp.adapters.clouds.parse import ID, ParseError, identifier, moment, object_in
from tgp.adapters.clouds.redact import Confidence
from tgp.adapters.clouds.sender import Sender
from tgp.adapters.clouds.vultr.errors import ERRORS, MISSING, said_in
from tgp.adapters.clouds.vultr.facts import FACTS
from tgp.adapters.clouds.vultr.paging import MOST_PAGES, VultrPages
from tgp.core.model.cloud_errors import CannotTell, OutcomeUnknown
from tgp.core.model.secret import Secret
from tgp.ports.http import Call, Http, Reply, json_call
from tgp.ports.images import StoredImage

READY, GONE = "complete", "deleted"


class VultrImageStore:
    def __init__(self, http: Http, key: Secret | None = None) -> None:
        self._sender = Sender(http, FACTS.title)
        self._key = key  # `http` sends it; here it is only removed from errors

    @property
    def title(self) -> str:
        return FACTS.title

    async def list(self) -> tuple[StoredImage, ...]:
        pages = VultrPages("/snapshots", "snapshots")
        for _ in range(MOST_PAGES):
            if not pages.take(await self._sender.look(pages.call()), "list snapshots", self._key):
                break
        return read_snapshots(pages.rows)

    async def make(self, mark: str, url: str) -> StoredImage:
        body = {"url": url, "description": mark}
        reply = await self._sender.change(json_call("POST", "/snapshots/create-from-url", body))
        return read_made(reply, self._key)

    async def remove(self, image_id: str) -> None:
        if not ID.match(image_id):
            raise CannotTell(f"{FACTS.title} cannot have an id such as {image_id[:64]!r}")
        reply = await self._sender.change(Call("DELETE", f"/snapshots/{quote(image_id, safe='')}"))
        read_removed(reply, self._key)


def read_snapshots(rows: list[Any]) -> tuple[StoredImage, ...]:
    """By id. A row without one makes the list unusable: it could be the wanted image."""
    found = {image.id: image for row in rows if (image := _snapshot(row)) is not None}
    return tuple(found[each] for each in sorted(found))


def _snapshot(row: Any) -> StoredImage | None:
    """None: listed as deleted."""
    if not isinstance(row, dict):
        raise CannotTell(f"{FACTS.title} lists a snapshot that is not an object")
    mark, status = row.get("description"), row.get("status")
    try:
        image_id, made_at = identifier(row.get("id")), moment(row.get("date_created"), "date_created")
    except ParseError as error:
        raise CannotTell(f"{FACTS.title} lists a snapshot that cannot be read: {error}") from error
    if status == GONE:
        return None
    return StoredImage(image_id, mark if isinstance(mark, str) else "", status == READY, made_at)


def read_made(reply: Reply, *confidences: Confidence) -> StoredImage:
    row = _made(reply)
    if row is not None:
        try:
            image = _snapshot(row)
        except CannotTell:
            image = None
        if reply.ok and image is not None:
            return image
        raise OutcomeUnknown(f"{FACTS.title} answered the import of an image with {reply.status} and a snapshot")
    raise ERRORS.after_order(reply, said_in(reply, *confidences), "the import of an image")


def _made(reply: Reply) -> Any:
    """The snapshot that an answer names, also in an error; None: none."""
    return object_in(reply).get("snapshot")


def read_removed(reply: Reply, *confidences: Confidence) -> None:
    if reply.status == 204 or (reply.status == MISSING and said_in(reply) is not None):
        return
    raise ERRORS.after_end(reply, said_in(reply, *confidences), "the deletion of a snapshot")
