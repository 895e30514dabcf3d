"""Machines that did not serve their pods are written for the next process, each once, and only the newest."""

from typing import Any

import pytest

from tests.core.pools.builders import NOW, ago
from tests.core.pools.test_runaway import a_machine
from tgp.adapters.kube.store import Store
from tgp.api.resource import GPU_REQUEST
from tgp.controllers.pools import unusable
from tgp.controllers.pools.unusable import UnusableMachines
from tgp.core.pools.runaway import Runaways, UnusableMachine, line_of
from tgp.ports.cluster import ClusterBusy


class Table:
    """A ConfigMap that may fail."""

    def __init__(self) -> None:
        self.lines: dict[str, UnusableMachine] = {}
        self.writes, self.fails = 0, False

    async def entries(self) -> dict[str, UnusableMachine]:
        return self.lines

    async def keep(self, name: str, entry: UnusableMachine) -> None:
        if self.fails:
            raise ClusterBusy("later")
        self.writes += 1
        self.lines[name] = entry

    async def drop(self, names: list[str]) -> None:
        for name in names:
            del self.lines[name]


class _Views:
    requests: Store[Any] = Store(GPU_REQUEST)


def of(*machines: UnusableMachine) -> UnusableMachines:
    found = UnusableMachines(_Views(), Runaways())  # type: ignore[arg-type]
    found.restore(machines, NOW)
    return found


async def test_a_machine_is_written_once_and_again_when_it_changes():
    table, machine = Table(), a_machine()
    await of(machine).keep(table)  # type: ignore[arg-type]
    await of(machine).keep(table)  # type: ignore[arg-type]
    assert table.writes == 1

    await of(a_machine(pods={})).keep(table)  # type: ignore[arg-type]
    assert (table.writes, table.lines["token-1"].pods) == (2, {})


async def test_what_could_not_be_written_is_written_next_time():
    table = Table()
    table.fails = True
    await of(a_machine()).keep(table)  # type: ignore[arg-type]
    table.fails = False
    await of(a_machine()).keep(table)  # type: ignore[arg-type]

    assert set(table.lines) == {"token-1"}


async def test_the_table_has_the_newest_machines_only(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(unusable, "MOST_LINES", 2)
    table = Table()
    await of(*(a_machine(number, ended_at=ago(minutes=number)) for number in (3, 4))).keep(table)  # type: ignore[arg-type]
    await of(*(a_machine(number, ended_at=ago(minutes=number)) for number in range(5))).keep(table)  # type: ignore[arg-type]

    assert set(table.lines) == {"token-0", "token-1"}


async def test_the_table_stays_within_what_a_config_map_holds():
    table, pods = Table(), {f"uid-{number}": "f" * 100 for number in range(200)}
    await of(*(a_machine(number, ended_at=ago(minutes=number), pods=pods) for number in range(60))).keep(table)  # type: ignore[arg-type]

    assert 500_000 < sum(len(line_of(each)) for each in table.lines.values()) < 900_000
    assert "token-0" in table.lines
