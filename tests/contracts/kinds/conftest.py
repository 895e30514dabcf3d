"""A real API server with our CRDs on it, for all tests of this folder."""

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.contracts.kinds.door import Door
from tgp.api.crds import crds
from tgp.api.resource import CUSTOM_RESOURCE_DEFINITION
from tools.controlplane.plane import ControlPlane

ESTABLISHED_BOUND = 200  # looks, a tenth of a second apart


@pytest.fixture(scope="package")
def door(control_plane: ControlPlane) -> Iterator[Door]:
    with closing(Door(control_plane)) as speaking:
        install(speaking)
        yield speaking


def install(door: Door) -> None:
    """Create or replace our CRDs and wait until objects of each kind are taken."""
    for definition in crds(legacy=True):
        replace_definition(door, definition)


def replace_definition(door: Door, definition: dict[str, Any]) -> None:
    """Create or replace one CRD and wait until its objects are served."""
    path, name = CUSTOM_RESOURCE_DEFINITION.path(), definition["metadata"]["name"]
    stored = door.call("GET", f"{path}/{name}")
    if stored.status == 404:
        answer = door.call("POST", path, definition)
    else:
        version = stored.body["metadata"]["resourceVersion"]
        newer = {**definition, "metadata": {**definition["metadata"], "resourceVersion": version}}
        answer = door.call("PUT", f"{path}/{name}", newer)
    assert answer.accepted, f"{name}: {answer.message}"
    _wait_until_served(door, definition)


def _wait_until_served(door: Door, definition: dict[str, Any]) -> None:
    spec = definition["spec"]
    path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}?limit=1"
    for _ in range(ESTABLISHED_BOUND):
        if door.call("GET", path).status == 200:
            return
        time.sleep(0.1)
    raise AssertionError(f"{spec['names']['kind']} is not served")
