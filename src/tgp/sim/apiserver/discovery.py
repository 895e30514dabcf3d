"""Discovery: which groups, versions, resources and verbs there are, in the plain and in the aggregated form.

Clients ask once, keep the answer under its ETag, and map `gnp` or `deploy` to a path with it. Everything is made from
the registry, so a CustomResourceDefinition shows up as soon as it is served.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tgp.ports.http import Call, Pairs, Reply
from tgp.sim.apiserver.registry import Registry, Served, Subresource

VERSION: Mapping[str, str] = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.3",  # the release whose behaviour this server follows
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
}
_AGGREGATED_KIND = "APIGroupDiscoveryList"
_AGGREGATED_GROUP = "apidiscovery.k8s.io"
_AGGREGATED_VERSIONS = ("v2", "v2beta1")
_STAGES = {"": 2, "beta": 1, "alpha": 0}
_VERSION_NAME = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_Document = dict[str, Any]


class Discovery:
    """Answers everything below /api and /apis that is no resource, and /version."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._made: dict[tuple[str, str], Reply] = {}  # path and form; emptied when the registry changes
        self._made_at = registry.changes

    def answer(self, call: Call) -> Reply | None:
        """The document at this path; None: the path is none of ours, or no such group or version is served."""
        if call.method not in {"GET", "HEAD"}:
            return None
        if self._made_at != self._registry.changes:
            self._made, self._made_at = {}, self._registry.changes
        path, form = call.path.rstrip("/"), _aggregated_form(call)
        reply = self._made.get((path, form)) or self._make(path, form)
        if reply is None:
            return None
        self._made[path, form] = reply
        if form and call.header("If-None-Match") == reply.header("ETag"):
            return Reply(304, b"", reply.headers)
        return reply

    def _make(self, path: str, form: str) -> Reply | None:
        match path.split("/")[1:]:
            case ["version"]:
                return _json(VERSION)
            case ["api"]:
                return self._aggregated("api", form) if form else _json(_API_VERSIONS)
            case ["apis"]:
                return self._aggregated("apis", form) if form else _json(self._group_list())
            case ["apis", group] if group in self._named_groups():
                return _json({"kind": "APIGroup", "apiVersion": "v1", **self._group(group)})
            case ["api", version]:
                return self._resources("", version)
            case ["apis", group, version] if group:
                return self._resources(group, version)
            case _:
                return None

    def _named_groups(self) -> list[str]:
        return [group for group in self._registry.groups() if group]

    def _group_list(self) -> _Document:
        groups = [self._group(group) for group in self._named_groups()]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    def _group(self, group: str) -> _Document:
        offered = [
            {"groupVersion": f"{group}/{v}", "version": v} for v in by_preference(self._registry.versions(group))
        ]
        return {"name": group, "versions": offered, "preferredVersion": offered[0]}

    def _resources(self, group: str, version: str) -> Reply | None:
        served = [s for s in self._registry if (s.group, s.version) == (group, version)]
        if not served:
            return None
        lines = sorted((line for one in served for line in _api_resources(one)), key=lambda line: str(line["name"]))
        where = f"{group}/{version}" if group else version
        return _json({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": where, "resources": lines})

    def _aggregated(self, root: str, form: str) -> Reply:
        groups = [""] if root == "api" else self._named_groups()
        document = {
            "kind": _AGGREGATED_KIND,
            "apiVersion": f"{_AGGREGATED_GROUP}/{form}",
            "metadata": {},
            "items": [self._aggregated_group(group) for group in groups],
        }
        return _tagged(document, f"application/json;g={_AGGREGATED_GROUP};v={form};as={_AGGREGATED_KIND}")

    def _aggregated_group(self, group: str) -> _Document:
        versions = []
        for version in by_preference(self._registry.versions(group)):
            served = (s for s in self._registry if (s.group, s.version) == (group, version))
            lines = [_aggregated_resource(s) for s in sorted(served, key=lambda s: s.plural)]
            versions.append({"version": version, "resources": lines, "freshness": "Current"})
        return {"metadata": {"name": group} if group else {"creationTimestamp": None}, "versions": versions}


_API_VERSIONS: _Document = {
    "kind": "APIVersions",
    "versions": ["v1"],
    "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}],
}


def by_preference(versions: Iterable[str]) -> list[str]:
    """Versions as clients prefer them: v2, v1, v1beta1, v1alpha1; names of another form last, in alphabetical order."""
    return sorted(versions, key=_rank)


def _rank(version: str) -> tuple[int, int, int, int, str]:
    match = _VERSION_NAME.fullmatch(version)
    if match is None:
        return (1, 0, 0, 0, version)
    return (0, -_STAGES[match[2] or ""], -int(match[1]), -int(match[3] or 0), version)


def _aggregated_form(call: Call) -> str:
    """v2 or v2beta1, the first the client names; empty: it wants the plain form."""
    for offer in call.header("Accept").split(","):
        wanted = dict(part.strip().partition("=")[::2] for part in offer.split(";"))
        version = wanted.get("v", "")
        if (
            wanted.get("as") == _AGGREGATED_KIND
            and wanted.get("g") == _AGGREGATED_GROUP
            and version in _AGGREGATED_VERSIONS
        ):
            return version
        if "application/json" in wanted and "as" not in wanted:
            return ""
    return ""


def _api_resources(served: Served) -> list[_Document]:
    own: _Document = {
        "name": served.plural,
        "singularName": served.singular,
        "namespaced": served.namespaced,
        "kind": served.kind,
        "verbs": list(served.verbs),
    }
    if served.short_names:
        own["shortNames"] = list(served.short_names)
    if served.categories:
        own["categories"] = list(served.categories)
    return [own, *(_api_subresource(served, sub) for sub in served.subresources)]


def _api_subresource(served: Served, sub: Subresource) -> _Document:
    line: _Document = {
        "name": f"{served.plural}/{sub.name}",
        "singularName": "",
        "namespaced": served.namespaced,
        "kind": sub.kind,
        "verbs": sorted(sub.verbs),
    }
    return line | ({"group": sub.group, "version": sub.version} if sub.version else {})


def _aggregated_resource(served: Served) -> _Document:
    line: _Document = {
        "resource": served.plural,
        "responseKind": _response_kind(served, served.kind),
        "scope": "Namespaced" if served.namespaced else "Cluster",
        "singularResource": served.singular,
        "verbs": list(served.verbs),
    }
    if served.short_names:
        line["shortNames"] = list(served.short_names)
    if served.categories:
        line["categories"] = list(served.categories)
    if served.subresources:
        line["subresources"] = [
            {
                "subresource": sub.name,
                "responseKind": _response_kind(served, sub.kind, sub),
                "verbs": sorted(sub.verbs),
            }
            for sub in sorted(served.subresources, key=lambda sub: sub.name)
        ]
    return line


def _response_kind(served: Served, kind: str, sub: Subresource | None = None) -> _Document:
    """Of built-in kinds the real server leaves group and version empty where they are those of the list."""
    if sub is not None and sub.version:
        return {"group": sub.group, "version": sub.version, "kind": kind}
    if served.custom:
        return {"group": served.group, "version": served.version, "kind": kind}
    return {"group": "", "version": "", "kind": kind}


def _json(document: Mapping[str, Any]) -> Reply:
    return Reply(200, msgspec.json.encode(document), (("Content-Type", "application/json"),))


def _tagged(document: Mapping[str, Any], content_type: str) -> Reply:
    content = msgspec.json.encode(document)
    tag = hashlib.sha256(content).hexdigest()
    headers: Pairs = (
        ("Content-Type", content_type),
        ("ETag", f'"{tag}"'),
        ("Cache-Control", "public"),
        ("Vary", "Accept"),
    )
    return Reply(200, content, headers)
