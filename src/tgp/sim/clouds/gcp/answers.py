"""Google's envelopes: errors, lists in pages, aggregated lists."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from tgp.ports.http import Call, Pairs, Reply
from tgp.sim.clouds.gcp import filters, masks

JSON: Pairs = (("Content-Type", "application/json; charset=UTF-8"), ("Server", "ESF"))
PAGE_MOST = 500
LONGEST_NUMBER = 12  # digits
ROOT = "https://www.googleapis.com/compute/v1"  # how links begin, whatever address was asked
STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}


class GcpError(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.reply = error(status, reason, message)


def answer(value: Any, status: int = 200) -> Reply:
    return Reply(status, msgspec.json.encode(value), JSON)


def error(status: int, reason: str, message: str, headers: Pairs = (), **more: Any) -> Reply:
    body: dict[str, Any] = {
        "code": status,
        "message": message,
        "errors": [{"message": message, "domain": "global", "reason": reason}],
    }
    if status in STATUSES and reason != "notFound":  # Compute's own errors have no status; the front door's have
        body["status"] = STATUSES[status]
    return Reply(status, msgspec.json.encode({"error": body | more}), (*JSON, *headers))


def not_found(path: str) -> GcpError:
    return GcpError(404, "notFound", f"The resource '{path}' was not found")


@dataclass(frozen=True, slots=True)
class ListRequest:
    """What a list was asked for."""

    most: int
    begin: int
    keeps: filters.Test

    @classmethod
    def of(cls, call: Call) -> "ListRequest":
        return cls(_most(call.parameter("maxResults")), _begin(call.parameter("pageToken")), _test(call))

    def cut(self, rows: Sequence[Any]) -> tuple[Sequence[Any], Mapping[str, str]]:
        """The rows of this page, and how it goes on."""
        end = self.begin + self.most
        return rows[self.begin : end], {"nextPageToken": page_token(end)} if end < len(rows) else {}


def listed(call: Call, kind: str, path: str, rows: Sequence[dict[str, Any]]) -> Reply:
    """A list of one zone, or of the project."""
    query = ListRequest.of(call)
    page, more = query.cut([row for row in rows if query.keeps(row)])
    body: dict[str, Any] = {"kind": kind, "id": path, "selfLink": f"{ROOT}/{path}", **more}
    return masked(call, body | ({"items": list(page)} if page else {}))


def aggregated(
    call: Call, kind: str, path: str, zones: Sequence[str], rows: Callable[[str], Sequence[dict[str, Any]]]
) -> Reply:
    """A list over all zones. Every zone is in it: with its rows on this page, or with the warning that it has none."""
    name = path.rpartition("/")[2]
    query = ListRequest.of(call)
    every = [(zone, row) for zone in zones for row in rows(zone) if query.keeps(row)]
    page, more = query.cut(every)
    items: dict[str, Any] = {}
    for zone in zones:
        found = [row for where, row in page if where == zone]
        items[f"zones/{zone}"] = {name: found} if found else {"warning": _nothing_in(f"zones/{zone}")}
    body: dict[str, Any] = {"kind": kind, "id": path, "items": items, "selfLink": f"{ROOT}/{path}", **more}
    return masked(call, body)


def masked(call: Call, body: Any) -> Reply:
    text = call.parameter("fields")
    if not text:
        return answer(body)
    try:
        return answer(masks.apply(masks.parse(text), body))
    except masks.BadMask as problem:
        raise GcpError(400, "invalidParameter", f"Invalid field selection {problem}") from None


def page_token(begin: int) -> str:
    return urlsafe_b64encode(f"begin={begin}".encode()).decode()


def _nothing_in(scope: str) -> dict[str, Any]:
    return {
        "code": "NO_RESULTS_ON_PAGE",
        "message": f"There are no results for scope '{scope}' on this page.",
        "data": [{"key": "scope", "value": scope}],
    }


def _most(raw: str) -> int:
    if not raw:
        return PAGE_MOST
    if not raw.isascii() or not raw.isdigit() or len(raw) > LONGEST_NUMBER or int(raw) > PAGE_MOST:
        message = f"Invalid value for field 'maxResults': '{raw[:64]}'. Must be between 0 and {PAGE_MOST}"
        raise GcpError(400, "invalid", message)
    return int(raw) or PAGE_MOST


def _begin(token: str) -> int:
    if not token:
        return 0
    try:
        word, _, number = urlsafe_b64decode(token).decode().partition("=")
    except ValueError:
        word, number = "", ""
    if word != "begin" or not number.isascii() or not number.isdigit() or len(number) > LONGEST_NUMBER:
        raise GcpError(400, "invalid", f"Invalid value for field 'pageToken': '{token[:64]}'.")
    return int(number)


def _test(call: Call) -> filters.Test:
    text = call.parameter("filter")
    if not text:
        return lambda _row: True
    try:
        return filters.parse(text)
    except filters.BadFilter:
        raise GcpError(400, "invalid", "Invalid value for field 'filter': Invalid list filter expression.") from None
