"""The Image Factory as its clients see it: schematics, releases, extensions, and images that take a while to build.

A `Handler`, for the simulated network or a loopback port. An image is built when it is first asked for; until it is
done, clients get a gateway timeout.
"""

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec

from tgp.core.model.talos import TalosVersion, read_version
from tgp.ports.clock import Clock
from tgp.ports.http import Call, HangUp, Reply
from tgp.sim.factory import schematics
from tgp.sim.factory.catalogue import VERSIONS, extensions

JSON = (("Content-Type", "application/json"),)
TEXT = (("Content-Type", "text/plain; charset=utf-8"),)
HTML = (("Content-Type", "text/html"),)
ASSET = re.compile(
    r"(?:kernel-(?:amd64|arm64)|initramfs-(?:amd64|arm64)\.xz|cmdline-[a-z]+-(?:amd64|arm64)"
    r"|[a-z]+-(?:amd64|arm64)\.(?:iso|(?:raw|qcow2)(?:\.xz|\.zst|\.gz|\.tar\.gz)?))\Z"
)
BUILDING = timedelta(seconds=90)
DIGEST = "sha256:" + "0" * 64


class Mood(StrEnum):
    HANG_UP = "hang-up"  # no answer
    ERROR = "error"  # 500
    GATEWAY = "gateway"  # 502 and a page
    BUSY = "busy"  # 429
    HTML = "html"  # 200 and a page of a proxy
    EMPTY = "empty"  # 200 and nothing
    GARBAGE = "garbage"  # 200 and JSON of another shape
    HUGE = "huge"  # 200 and more than a client reads
    PAID = "paid"  # 402
    FORBIDDEN = "forbidden"  # 403


ANSWERS = {
    Mood.ERROR: Reply(500, b"internal server error\n", TEXT),
    Mood.GATEWAY: Reply(502, b"<html><body>502 Bad Gateway</body></html>", HTML),
    Mood.BUSY: Reply(429, b"too many requests\n", (*TEXT, ("Retry-After", "5"))),
    Mood.HTML: Reply(200, b"<!DOCTYPE html><html><body>Just a moment...</body></html>", HTML),
    Mood.EMPTY: Reply(200, b"", JSON),
    Mood.GARBAGE: Reply(200, b'{"unexpected": [7]}', JSON),
    Mood.HUGE: Reply(200, b"[" + b" " * (8 << 20) + b"]", JSON),
    Mood.PAID: Reply(402, b"enterprise feature\n", TEXT),
    Mood.FORBIDDEN: Reply(403, b"forbidden\n", TEXT),
}


@dataclass(slots=True)
class FactorySimulator:
    clock: Clock
    building: timedelta = BUILDING  # that an image takes
    versions: tuple[TalosVersion, ...] = VERSIONS
    moods: list[Mood] = field(default_factory=list)  # of the next answers
    asked: list[str] = field(default_factory=list)
    images: dict[str, bytes] = field(default_factory=dict)  # contents of one's own, by asset
    _plans: dict[str, schematics.SchematicPlan] = field(default_factory=dict)
    _done_at: dict[str, datetime] = field(default_factory=dict)

    async def handle(self, call: Call) -> Reply:
        self.asked.append(f"{call.method} {call.path}")
        if self.moods:
            mood = self.moods.pop(0)
            if mood is Mood.HANG_UP:
                raise HangUp
            return ANSWERS[mood]
        return self._route(call)

    def _route(self, call: Call) -> Reply:
        match (call.method, call.path.split("/")[1:]):
            case ("POST", ["schematics"]):
                return self._create(call)
            case ("GET", ["schematics", schematic]):
                plan = self._plans.get(schematic)
                return _text(404, "not found") if plan is None else Reply(200, schematics.canonical(plan).encode())
            case ("GET", ["versions"]):
                return _json(200, [str(version) for version in self.versions])
            case ("GET", ["version", version, "extensions", "official"]):
                return self._extensions(version)
            case ("GET" | "HEAD", ["image", schematic, version, asset]):
                return self._image(call, schematic, version, asset)
            case ("GET" | "HEAD", ["blob", schematic, version, asset]):
                return self._bytes(call, f"{schematic}/{version}/{asset}")
            case _:
                return _text(404, "404 page not found")

    def _create(self, call: Call) -> Reply:
        plan = schematics.read(call.body)
        if isinstance(plan, str):
            return _text(400, plan)
        found = schematics.digest(plan)
        self._plans[found] = plan
        return _json(201, {"id": found, "schematic": schematics.canonical(plan)})

    def _extensions(self, version_text: str) -> Reply:
        version = read_version(version_text)
        if version is None:
            return _text(500, "error parsing version")
        if version not in self.versions:
            return _text(404, f"version {version_text} is not available")
        return _json(200, [_row(name, version) for name in extensions(version)])

    def _image(self, call: Call, schematic: str, version_text: str, asset: str) -> Reply:
        plan, version = self._plans.get(schematic), read_version(version_text)
        if plan is None:
            return _text(404, f"schematic {schematic} not found")
        if version not in self.versions:
            return _text(404, f"version {version_text} is not available")
        if not ASSET.match(asset):
            return _text(400, f'invalid profile path: "{asset}"')
        for name in plan.customization.system_extensions.official_extensions:
            if name not in extensions(version):
                return _text(400, f'official extension "{name}" is not available for Talos version {version_text}')
        where = f"{schematic}/{version_text}/{asset}"
        now = self.clock.now()
        if now < self._done_at.setdefault(where, now + self.building):
            return ANSWERS[Mood.GATEWAY]
        if call.method == "GET":
            return Reply(302, b"", (("Location", f"/blob/{where}"),))
        return self._bytes(call, where)

    def _bytes(self, call: Call, where: str) -> Reply:
        content = self.images.get(where.rpartition("/")[2], f"a disk image: {where}\n".encode())
        headers = (("Content-Type", "application/octet-stream"), ("Content-Length", str(len(content))))
        return Reply(200, content if call.method == "GET" else b"", headers)


def _row(name: str, version: TalosVersion) -> dict[str, Any]:
    short = name.rpartition("/")[2]
    reference = f"ghcr.io/{name}:{version}"
    return {"name": name, "ref": reference, "digest": DIGEST, "author": "Sidero Labs", "description": f"{short}.\n"}


def _json(status: int, body: Any) -> Reply:
    return Reply(status, msgspec.json.encode(body), JSON)


def _text(status: int, words: str) -> Reply:
    return Reply(status, f"{words}\n".encode(), TEXT)
