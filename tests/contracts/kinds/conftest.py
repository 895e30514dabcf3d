"""A real API server with our CRDs on it, for all tests of this folder."""

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.contracts.kinds.real_api_server import RealApiServer
from tgp.api.crds import crds
from tgp.api.resource import CUSTOM_RESOURCE_DEFINITION
from tools.controlplane.plane import ControlPlane

ESTABLISHED_BOUND = 200  # looks, a tenth of a second apart


@pytest.fixture(scope="package")
def real_server(control_plane: ControlPlane) -> Iterator[RealApiServer]:
    with closing(RealApiServer(control_plane)) as speaking:
        install(speaking)
        yield speaking


def install(real_server: RealApiServer) -> None:
    """Create or replace our CRDs and wait until objects of each kind are taken."""
    for definition in crds(legacy=True):
        replace_definition(real_server, definition)


def replace_definition(real_server: RealApiServer, definition: dict[str, Any]) -> None:
    """Create or replace one CRD and wait until its objects are served."""
    path, name = CUSTOM_RESOURCE_DEFINITION.path(), definition["metadata"]["name"]
    stored = real_server.call("GET", f"{path}/{name}")
    if stored.status == 404:
        answer = real_server.call("POST", path, definition)
    else:
        version = stored.body["metadata"]["resourceVersion"]
        newer = {**definition, "metadata": {**definition["metadata"], "resourceVersion": version}}
        answer = real_server.call("PUT", f"{path}/{name}", newer)
    assert answer.accepted, f"{name}: {answer.message}"
    _wait_until_served(real_server, definition)


def _wait_until_served(real_server: RealApiServer, definition: dict[str, Any]) -> None:
    spec = definition["spec"]
    path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}?limit=1"
    for _ in range(ESTABLISHED_BOUND):
        if real_server.call("GET", path).status == 200:
            return
        time.sleep(0.1)
    raise AssertionError(f"{spec['names']['kind']} is not served")
