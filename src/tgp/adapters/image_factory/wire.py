"""The Image Factory's wire: values to calls, replies to values. No I/O here."""

import re
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from tgp.adapters.clouds.parse import READ_MAX, shown
from tgp.core.model.talos import TalosVersion, read_version
from tgp.ports.http import Call, Reply, UnreadableReply, json_call
from tgp.ports.image_factory import FactoryError, FactoryRefused, Schematic

DEFAULT_URL = "https://factory.talos.dev"
TITLE = "the image factory"
VERSIONS_SHOWN = 5  # in the text of a refusal
ID = re.compile(r"[0-9a-f]{64}\Z")
EXTENSION = re.compile(r"[a-z0-9][a-z0-9.-]*/[a-z0-9][a-z0-9._-]*\Z")
LIST_BYTES = 4 << 20  # the list of extensions has some 60 KB
BUSY = (408, 425, 429)  # not now
STILL_BUILDING = (202, 408, 425, 429, 502, 503, 504)
REDIRECTS = (301, 302, 303, 307, 308)
FIRST_BYTES = 64 << 10  # limit of the answer to a call for one byte


def create(schematic: Schematic) -> Call:
    return json_call("POST", "/schematics", dict(schematic.body()))


def read_create(reply: Reply) -> str:
    if reply.status not in (200, 201):
        raise trouble(reply, "the schematic")
    found = reply.text("id")
    if not ID.match(found):
        raise FactoryError(f"{TITLE} answered {reply.status} without a schematic id")
    return found


def extensions(version: TalosVersion) -> Call:
    return Call("GET", f"/version/{quote(str(version), safe='')}/extensions/official", max_bytes=LIST_BYTES)


def read_extensions(reply: Reply, version: TalosVersion) -> frozenset[str]:
    """Never empty: an empty list would be a version that the factory cannot read."""
    if reply.status != 200:
        raise trouble(reply, f"the extensions of Talos {version}")
    rows = _list(reply)
    names = frozenset(row["name"] for row in rows if isinstance(row, dict) and _is_extension(row.get("name")))
    if not names:
        raise FactoryError(f"{TITLE} listed no extension of Talos {version}")
    return names


def versions() -> Call:
    return Call("GET", "/versions", max_bytes=LIST_BYTES)


def read_versions(reply: Reply) -> frozenset[TalosVersion]:
    if reply.status != 200:
        raise trouble(reply, "the list of versions")
    found = (read_version(each) for each in _list(reply) if isinstance(each, str))
    return frozenset(each for each in found if each is not None)


def no_version(version: TalosVersion, known: frozenset[TalosVersion]) -> FactoryRefused:
    """With the newest of the same minor release, else of every one."""
    final = sorted(each for each in known if each.final)
    same = [each for each in final if each.minor == version.minor][-VERSIONS_SHOWN:]
    newest = list({each.minor: each for each in final}.values())[-VERSIONS_SHOWN:]
    shown = ", ".join(str(each) for each in same or newest)
    hint = f"; it has {shown}" if shown else ""
    return FactoryRefused(f"{TITLE} has no Talos {version}{hint}")


def trouble(reply: Reply, what: str) -> FactoryError:
    """What an answer that is no success means."""
    if reply.status >= 500 or reply.status in BUSY:
        return FactoryError(f"{TITLE} answered {reply.status} to {what}; retrying")
    if reply.status in (401, 402, 403):
        return FactoryRefused(f"{TITLE} requires an account for {what} ({reply.status}): use a public factory")
    if reply.status == 404:
        return FactoryRefused(f"{TITLE} does not know {what}: check that its URL is the one of an image factory")
    if 400 <= reply.status < 500:
        return FactoryRefused(f"{TITLE} refused {what}: {_said(reply)}")
    return FactoryError(f"{TITLE} answered {reply.status} to {what}, an unexpected status")


def look_for(schematic: str, version: TalosVersion, asset: str) -> Call:
    return Call("HEAD", f"/image/{schematic}/{version}/{asset}")


def first_byte(base_url: str, url: str) -> Call | None:
    """None: the URL is on another server, which is not called."""
    base = base_url.rstrip("/")
    parts = urlsplit(url)
    if not url.startswith(f"{base}/"):
        return None
    path = url.removeprefix(base).partition("?")[0]
    query = tuple(parse_qsl(parts.query, keep_blank_values=True))
    return Call("GET", path, query=query, headers=(("Range", "bytes=0-0"),), max_bytes=FIRST_BYTES)


def is_built(reply: Reply, what: str) -> bool:
    """False: a gateway in front of the factory timed out; the factory continues to build."""
    if reply.status in STILL_BUILDING:
        return False
    if reply.ok or reply.status in REDIRECTS:
        return True
    raise trouble(reply, what)


def image(base_url: str, schematic: str, version: TalosVersion, asset: str) -> str:
    return f"{base_url.rstrip('/')}/image/{schematic}/{version}/{asset}"


def installer(base_url: str, schematic: str, version: TalosVersion, platform: str) -> str:
    parts = urlsplit(base_url)
    return f"{parts.netloc}{parts.path.rstrip('/')}/{platform}-installer/{schematic}:{version}"


def _list(reply: Reply) -> list[Any]:
    try:
        rows = reply.json()
    except UnreadableReply as error:
        raise FactoryError(f"{TITLE} sent an answer that is not valid JSON: {error}") from error
    if not isinstance(rows, list):
        raise FactoryError(f"{TITLE} sent an answer that is not a list")
    return rows


def _is_extension(name: Any) -> bool:
    return isinstance(name, str) and EXTENSION.match(name) is not None


def _said(reply: Reply) -> str:
    """Its errors are plain text; an HTML page of a proxy is not quoted."""
    if "html" in reply.header("Content-Type"):
        return f"{reply.status}"
    return shown(" ".join(reply.content[:READ_MAX].decode(errors="replace").split())) or f"{reply.status}"
