"""`GET /openapi.json`: the pages, described from the pages themselves."""

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from tgp import __version__
from tgp.core.access.rights import PageRight, PathRight
from tgp.core.access.token import TOKEN_HEADER
from tgp.interfaces.web.pages import JSON_TYPE, WebPage
from tgp.ports.http import Call, Reply

REFUSALS = {
    "400": "A parameter is wrong; the message names it",
    "401": "There is no valid token",
    "403": "The user may not read this; the message names the right",
    "429": "Too many requests from this address",
    "503": "The API server did not answer a review",
}
PROBLEM = {
    "type": "object",
    "required": ["code", "message"],
    "properties": {"code": {"type": "integer"}, "message": {"type": "string"}},
}


class OpenApiPage:
    path = "/openapi.json"
    namespaced = False
    operation: ClassVar[dict[str, Any]] = {
        "operationId": "openapi",
        "summary": "This document",
        "responses": {"200": {"description": "OpenAPI", "content": {"application/json": {"schema": {}}}}},
    }

    def __init__(self, pages: Mapping[str, WebPage]) -> None:
        described = {**pages, self.path: self}
        self._document = msgspec.json.encode(openapi({path: page.operation for path, page in described.items()}))

    def right(self, call: Call) -> PageRight:  # noqa: ARG002 - the same for every call
        return PathRight(self.path)

    async def answer(self, call: Call) -> Reply:  # noqa: ARG002 - the same for every call
        return Reply(200, self._document, JSON_TYPE)


def openapi(operations: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """`operations` by path; each answers a GET."""
    refusals: dict[str, dict[str, Any]] = {
        code: {"description": text, "content": {"application/json": {"schema": PROBLEM}}}
        for code, text in REFUSALS.items()
    }
    refusals["400"]["content"]["text/plain"] = {"schema": {"type": "string"}}  # a request line that is too long
    return {
        "openapi": "3.1.0",
        "info": {"title": "tgp operator", "version": __version__},
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "proxied": {"type": "apiKey", "in": "header", "name": TOKEN_HEADER},
            }
        },
        "security": [{"token": []}, {"proxied": []}],
        "paths": {
            path: {"get": {**operation, "responses": {**refusals, **operation["responses"]}}}
            for path, operation in sorted(operations.items())
        },
    }
