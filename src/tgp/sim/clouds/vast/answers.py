"""Answers in Vast's envelope."""

from typing import Any

import msgspec

from tgp.ports.http import NO_JSON, Call, Pairs, Reply

JSON: Pairs = (("Content-Type", "application/json"),)  # and no charset: the vendor's client compares the whole text


class VastError(Exception):
    """A request that Vast does not take; it knows its own answer."""

    def __init__(self, status: int, code: str, message: str, **rest: Any) -> None:
        super().__init__(message)
        self.reply = answer({"success": False, "error": code, "msg": message, **rest}, status)


def answer(value: Any, status: int = 200, *headers: tuple[str, str]) -> Reply:
    return Reply(status, msgspec.json.encode(value), (*JSON, *headers))


def too_frequent(threshold: float, *headers: tuple[str, str]) -> Reply:
    return answer({"detail": f"API requests too frequent endpoint threshold={threshold}"}, 429, *headers)


def no_such_instance(instance_id: str) -> VastError:
    return VastError(404, "no_such_instance", f"Instance {instance_id} not found.")


def object_in(call: Call) -> dict[str, Any]:
    """The body of a request, which must be a JSON object."""
    try:
        body = msgspec.json.decode(call.body or b"{}")
    except NO_JSON:
        raise VastError(400, "invalid_args", "the body is no JSON") from None
    if not isinstance(body, dict):
        raise VastError(400, "invalid_args", "the body is no object")
    return body
