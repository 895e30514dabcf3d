"""Merges a template over the generated config: the template wins, the rest is filled in."""

from typing import Any

from tgp.core.joining.talos.generate import TAILSCALE_SERVICE
from tgp.core.joining.talos.tailscale_up_flags import joined_arguments

# of the client's environment: the node's identity, and that its key is single-use
_OURS = ("TS_HOSTNAME", "TS_AUTH_ONCE")


_ADDED_UP = ((("machine", "kernel", "modules"), "name"), (("machine", "network", "interfaces"), "interface"))


def overlay(generated: list[dict[str, Any]], template: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One document per kind and name, the generated ones first and in their order."""
    said = {_identity(document): document for document in template}
    config = said.get(_identity({}), {})
    merged = [
        _document(document, said.pop(_identity(document), {}))
        for document in generated
        if not (document.get("kind") == "KubeSpanConfig" and _old_kubespan(config) is not None)
    ]
    _old_kubespan_on(merged, generated)
    return merged + list(said.values())


def _identity(document: dict[str, Any]) -> tuple[str, str]:
    kind, name = document.get("kind", ""), document.get("name", "")
    return kind if isinstance(kind, str) else "", name if isinstance(name, str) else ""


def _document(generated: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
    merged = _laid(generated, said)
    if _identity(generated) == ("ExtensionServiceConfig", TAILSCALE_SERVICE):
        merged["environment"] = _environment(generated["environment"], said.get("environment"))
    if _identity(generated) == ("", ""):
        for path, by in _ADDED_UP:
            _add_up(merged, generated, path, by)
    return merged


def _laid(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    both = dict(under)
    for key, value in over.items():
        mine = both.get(key)
        if value is None and mine is not None:
            continue  # a key without a value is unset
        both[key] = _laid(mine, value) if isinstance(mine, dict) and isinstance(value, dict) else value
    return both


def _add_up(merged: dict[str, Any], generated: dict[str, Any], path: tuple[str, ...], by: str) -> None:
    """Otherwise the template's list would drop what the node needs."""
    ours, theirs = _at(generated, path), _at(merged, path)
    if not isinstance(ours, list) or not isinstance(theirs, list) or theirs is ours:
        return
    named = [each.get(by) for each in theirs if isinstance(each, dict)]
    _at(merged, path[:-1])[path[-1]] = theirs + [each for each in ours if each[by] not in named]


def _at(data: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        data = data.get(step) if isinstance(data, dict) else None
    return data


def _environment(ours: list[str], theirs: Any) -> list[str]:
    said = dict(entry.partition("=")[::2] for entry in ours)
    for entry in theirs if isinstance(theirs, list) else []:
        name, equals, value = entry.partition("=") if isinstance(entry, str) else ("", "", "")
        if not equals or (name in _OURS and name in said):
            continue
        if name == "TS_EXTRA_ARGS":
            value = joined_arguments(said.get(name, ""), value)
        said[name] = value
    return [f"{name}={value}" for name, value in said.items()]


def _old_kubespan(config: dict[str, Any]) -> Any:
    return _at(config, ("machine", "network", "kubespan"))


def _old_kubespan_on(merged: list[dict[str, Any]], generated: list[dict[str, Any]]) -> None:
    """If the class's mesh is KubeSpan and the template has its settings in the old place, it is enabled there."""
    wanted = any(document.get("kind") == "KubeSpanConfig" for document in generated)
    settings = _old_kubespan(merged[0])
    if wanted and isinstance(settings, dict):
        merged[0]["machine"]["network"]["kubespan"] = {**settings, "enabled": True}
