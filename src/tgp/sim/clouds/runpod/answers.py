"""Answers as v2 words them. Problems are `application/problem+json`; paths know their methods."""

from typing import Any

import msgspec

from tgp.ports.http import Pairs, Reply

POLICY = '"minute";q=60;w=60, "hour";q=3000;w=3600, "day";q=50000;w=86400'  # the schema's own example
TITLES = {
    400: "Bad Request",
    401: "Unauthorized",
    402: "Payment Required",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    410: "Gone",
    413: "Content Too Large",
    422: "Unprocessable Entity",
    429: "Too Many Requests",
    500: "Internal Server Error",
}


def json(status: int, value: Any) -> Reply:
    return Reply(status, msgspec.json.encode(value), (("Content-Type", "application/json"),))


def problem(status: int, detail: str, headers: Pairs = (), **more: Any) -> Reply:
    body = {"title": TITLES[status], "status": status, "detail": detail, **more}
    return Reply(status, msgspec.json.encode(body), (("Content-Type", "application/problem+json"), *headers))


def invalid(complaints: list[str]) -> Reply:
    return problem(422, "Request validation failed.", errors=complaints)


def no_json() -> Reply:
    return problem(400, "request body is not valid JSON")


def missing() -> Reply:
    return problem(404, "resource not found")


def not_here(parts: list[str]) -> Reply:
    """To a method that the path does not accept, or an unknown path."""
    allowed = _methods(parts)
    if not allowed:
        return missing()
    return problem(405, "The requested method is not allowed for this path.", (("Allow", allowed),))


def _methods(parts: list[str]) -> str:
    match parts:
        case ["v2", "pods"]:
            return "GET, POST"
        case ["v2", "pods", _]:
            return "GET, PATCH, DELETE"
        case ["v2", "pods", _, "action"]:
            return "POST"
        case ["v2", "catalog", "gpus" | "datacenters"] | ["v2", "catalog", "gpus", _] | ["v2", "account", "ssh-keys"]:
            return "GET"
    return ""


def limits(left: int, seconds: int) -> Pairs:
    return (("RateLimit", f'"minute";r={left};t={seconds}'), ("RateLimit-Policy", POLICY))
