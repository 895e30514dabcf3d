"""The pretend Google Cloud, judged by Google's own Python client in an environment of its own.

The client reads real sockets and real time, so the simulator runs on the system's clock, with quick habits.
"""

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tgp.adapters.clock import SystemClock
from tgp.adapters.http.serve import listen
from tgp.sim.clouds.gcp import GcpSimulator
from tgp.sim.clouds.stock import Product
from tools.clients import client_environment

JUDGE = Path(__file__).with_name("judge.py")
WITHIN_S = 120.0

Play: TypeAlias = Callable[[str], Awaitable[dict[str, Any]]]


class Judge:
    """Plays scripts, one after the other."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    async def play(self, url: str, key: Path, script: str) -> dict[str, Any]:
        try:
            async with asyncio.timeout(WITHIN_S):
                answer = await asyncio.to_thread(self._ask, json.dumps([url, str(key), script]))
        except TimeoutError:
            self._process.kill()  # its reader ends, too
            raise
        assert "told" in answer, answer["trouble"]
        return dict(answer["told"])

    def _ask(self, line: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(line, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        return dict(json.loads(answer)) if answer else {"trouble": "it ended without a word"}


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    python = client_environment("google-cloud-compute", "google-cloud-compute==1.56.0") / "bin" / "python"
    with subprocess.Popen(
        [python, JUDGE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment(), text=True
    ) as process:
        yield Judge(process)
        process.kill()


@pytest.fixture
def cloud() -> GcpSimulator:
    """Quick: a machine runs after a second, and is gone as quickly."""
    made = GcpSimulator(SystemClock(), "judged")
    made.operation_takes = timedelta(seconds=0.3)
    made.fleet.habits = replace(made.fleet.habits, list_lag=(0.0, 0.2), ending=(0.1, 0.3), moves=False)
    for stand in made.fleet.stands.values():
        stand.product = _quick(stand.product)
    return made


@pytest.fixture
async def play(cloud: GcpSimulator, judge: Judge, tmp_path: Path) -> AsyncIterator[Play]:
    served = await listen(cloud.handle)
    key = tmp_path / "key.json"
    key.write_text(cloud.key_at(served.url))
    yield lambda script: judge.play(served.url, key, script)
    await served.stop()


async def test_google_auth_gets_a_token_for_a_statement_it_signed(play: Play) -> None:
    """The key file is one that Google's library reads, and the token endpoint is one it can speak to."""
    said = await play("token")

    assert said["valid"]
    assert said["token"]


async def test_machine_types_and_gpus_are_listed_over_all_zones_and_pages(play: Play) -> None:
    """A page holds seven rows: the client follows every page token and sees each row once."""
    said = await play("catalogue")

    assert said["types"] == [f"g2-standard-{size}" for size in (12, 16, 24, 4, 48, 8, 96)]
    assert said["rows"] == 7 * 11
    assert said["cpus"] == [48]
    assert said["built_in"] == ["nvidia-l4"]
    assert {"nvidia-tesla-t4", "nvidia-tesla-v100", "nvidia-h100-80gb"} <= set(said["cards"])
    assert said["most_v100"] == [8]
    assert said["zones_without"] == ["zones/africa-south1-a", "zones/us-south1-a"]


async def test_a_machine_ordered_twice_under_one_request_id_is_one(play: Play, cloud: GcpSimulator) -> None:
    said = await play("life")

    assert said["one_operation"]
    assert said["listed"] == ["judged-1"]
    assert (said["by_label"], said["by_name"]) == (1, 1)
    assert (said["type"], said["model"], said["labels"]) == ("g2-standard-4", "SPOT", {"owner": "judge"})
    assert said["user_data"] == ["version: v1alpha1"]
    assert said["address"]
    assert said["created"]
    assert said["left"] == []
    assert len(cloud.fleet.machines) == 1


async def test_gpus_are_attached_to_n1_machines(play: Play) -> None:
    assert await play("attached") == {"type": "n1-standard-8", "gpu": "nvidia-tesla-t4", "count": 2}


async def test_every_refusal_is_of_a_kind_the_client_knows(play: Play, cloud: GcpSimulator) -> None:
    said = await play("refusals")
    kinds = {name: words.partition(":")[0] for name, words in said.items()}

    assert kinds == {
        "no_such_machine": "NotFound",
        "no_such_end": "NotFound",
        "foreign_project": "Forbidden",
        "live_migration": "BadRequest",
        "bad_name": "BadRequest",
        "no_image": "BadRequest",
        "bad_filter": "BadRequest",
        "zero_request_id": "BadRequest",
        "sold_out": "ServiceUnavailable",
    }
    assert "does not have enough resources" in said["sold_out"]
    assert len(cloud.fleet.machines) == 0


async def test_a_name_is_taken_by_one_machine_alone(play: Play) -> None:
    said = await play("twice")

    assert said["again"].startswith("Conflict")
    assert said["listed"] == 1


def _quick(product: Product) -> Product:
    return replace(product, boot_seconds=0.5)


def _environment() -> dict[str, str]:
    """Nothing of ours: no proxy, no credentials that happen to lie about."""
    return {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG", "TMPDIR")}
