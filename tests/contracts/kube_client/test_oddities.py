"""Invalid configurations and answers: errors name file and field, and retries never spin."""

import asyncio
import json
from datetime import timedelta

import pytest

from tests.contracts.kube_client.scripted import in_virtual_time
from tests.contracts.kube_client.test_connect import http_to
from tests.contracts.kube_client.test_credentials import Login, from_plugin, shown
from tgp.adapters.kube.config import choose, parse
from tgp.adapters.kube.config_field import ConfigInvalid
from tgp.adapters.kube.credentials import PLUGIN_REST
from tgp.adapters.kube.events import Note, _name
from tgp.api.resource import GPU_NODE_CLASS
from tgp.core.model.facts import FactSubject
from tgp.core.model.object_key import ObjectKey
from tgp.sim.clock import WorldClock


@pytest.mark.parametrize(
    "server",
    [
        "https://",
        "https://me:hunter2@host",
        "https://host:hunter2",
        "https://host:99999",
        "https://[::1",
        "https://host?a=b",
    ],
)
def test_an_address_that_cannot_be_used_is_named_before_anything_is_sent(server: str):
    """Otherwise it would come up in the first watch, as a defect of ours."""
    with pytest.raises(ConfigInvalid, match=r"clusters\[0\]\.cluster\.server: ") as refused:
        http_to(server, {})

    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "proxy", ["http://", "http://me:hunter2@", "http://proxy:hunter2", "http://proxy:99999", "http://[::1"]
)
def test_a_proxy_that_cannot_be_used_is_named(proxy: str):
    document = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://h", "proxy-url": proxy}}],
    }
    with pytest.raises(ConfigInvalid, match=r"clusters\[0\]\.cluster\.proxy-url: ") as refused:
        choose(parse(json.dumps(document).encode(), "/somewhere/config"))

    assert "hunter2" not in str(refused.value)


def test_a_plugin_whose_clock_is_behind_is_not_run_for_every_call():
    """What it gives is over already, as far as we can tell; the server has the last word."""

    async def deed() -> None:
        login = Login(lives=timedelta(minutes=-5), takes=0.1)
        source = from_plugin(login)
        for _ in range(20):
            await shown(source)
            await asyncio.sleep(0.2)
        assert login.runs == 1
        await asyncio.sleep(PLUGIN_REST)
        await shown(source)
        assert login.runs == 2

    in_virtual_time(deed())


def test_an_event_of_a_long_name_has_a_name_the_api_server_takes():
    """Cut behind a hyphen, the first part would end in one, and every event of the object would be refused."""

    async def deed() -> None:
        subject = FactSubject(GPU_NODE_CLASS, ObjectKey("", "a" * 199 + "-" + "b" * 40), "uid")
        name = _name(Note(subject, "Normal", "Valid", "fine"), WorldClock(asyncio.get_running_loop()).now())

        assert "-." not in name
        assert name.startswith("a" * 199 + ".")

    in_virtual_time(deed())
