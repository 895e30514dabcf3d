"""`GET /openapi.json`: the pages, described from the pages themselves."""

from collections.abc import Iterable
from typing import Any

import msgspec

from tgp import __version__
from tgp.core.access.rights import PageRight, PathRight
from tgp.core.access.token import TOKEN_HEADER
from tgp.interfaces.web.pages import JSON, JSON_TYPE, PageDescription, WebPages
from tgp.ports.http import Call, Reply

REFUSALS = {
    "400": "A parameter or a name is wrong; the message says which",
    "401": "There is no valid token",
    "403": "The user may not read this; the message names the right",
    "404": "There is no such object, or no such page",
    "405": "Only GET, HEAD and OPTIONS",
    "406": "The page is not of a type that Accept allows",
    "429": "Too many requests from this address",
    "503": "The API server did not answer, or this replica does not lead: ask again",
}
PROBLEM = {
    "type": "object",
    "required": ["code", "message"],
    "properties": {"code": {"type": "integer"}, "message": {"type": "string"}},
}


class OpenApiPage:
    about = PageDescription("/openapi.json", "openapi", "This document")

    def __init__(self, pages: WebPages) -> None:
        self._described = (*(page.about for page in pages.values()), self.about)
        self._document = b""  # made when it is first asked for

    def right(self, call: Call) -> PageRight:  # noqa: ARG002 - the same for every call
        return PathRight(self.about.path)

    async def answer(self, call: Call) -> Reply:  # noqa: ARG002 - the same for every call
        self._document = self._document or msgspec.json.encode(openapi(self._described))
        return Reply(200, self._document, JSON_TYPE)


def openapi(pages: Iterable[PageDescription]) -> dict[str, Any]:
    """Each answers a GET."""
    from tgp.services.documents.schemas import components  # all types of documents: not needed before

    described = sorted(pages, key=lambda page: page.path)
    references, parts = components(tuple(sorted({kind for page in described for kind in page.kinds})))
    return {
        "openapi": "3.1.0",
        "info": {"title": "tgp operator", "version": __version__},
        "components": {
            "schemas": {**parts, "Problem": PROBLEM},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "proxied": {"type": "apiKey", "in": "header", "name": TOKEN_HEADER},
            },
        },
        "security": [{"token": []}, {"proxied": []}],
        "paths": {page.path: {"get": _operation(page, references)} for page in described},
    }


def _operation(page: PageDescription, references: dict[str, dict[str, Any]]) -> dict[str, Any]:
    problem = {"schema": {"$ref": "#/components/schemas/Problem"}}
    refusals: dict[str, dict[str, Any]] = {
        code: {"description": text, "content": {JSON: problem}} for code, text in REFUSALS.items()
    }
    refusals["400"]["content"] = {JSON: problem, "text/plain": {"schema": {"type": "string"}}}  # too long a line
    kinds = [references[kind] for kind in page.kinds]
    schema = {"anyOf": kinds} if len(kinds) > 1 else kinds[0] if kinds else {}
    answered = {
        "description": " or ".join(page.kinds) or page.summary,
        "content": {page.content_type: {"schema": schema}},
    }
    return {
        "operationId": page.name,
        "summary": page.summary,
        "parameters": [
            *({"name": name, "in": "path", "required": True, "schema": schema} for name, schema in page.names.items()),
            *(
                {"name": name, "in": "query", "description": text, "schema": schema}
                for name, (schema, text) in page.parameters.items()
            ),
        ],
        "responses": {"200": answered, **refusals},
    }
