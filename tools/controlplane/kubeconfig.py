"""Kubeconfig files: JSON, which every reader of YAML takes."""

import json
from pathlib import Path
from typing import Any

from tools.controlplane.certificates import Pair

NAME = "tgp"


def for_certificate(pair: Pair) -> dict[str, Any]:
    return {"client-certificate-data": pair.certificate_data, "client-key-data": pair.key_data}


def for_token(token: str) -> dict[str, Any]:
    return {"token": token}


def write(path: Path, server: str, authority: Pair, user: dict[str, Any]) -> Path:
    """One cluster, one user, one context; readable by its owner alone."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": NAME,
        "clusters": [
            {"name": NAME, "cluster": {"server": server, "certificate-authority-data": authority.certificate_data}}
        ],
        "users": [{"name": NAME, "user": user}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}],
    }
    write_private(path, json.dumps(document, indent=1).encode())
    return path


def write_private(path: Path, content: bytes) -> Path:
    """Never readable by others, not even for the moment between making and closing it."""
    path.touch(mode=0o600)
    path.write_bytes(content)
    return path
