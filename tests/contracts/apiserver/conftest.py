"""One recording of each server; every test of the suite reads them."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.contracts.apiserver.everything import all_cases, cases_of
from tests.contracts.apiserver.fake import Make, fake_host, honest
from tests.contracts.apiserver.lies import LIES
from tests.contracts.apiserver.real import real_host
from tests.contracts.apiserver.run import Outcome, difference, prepare, run
from tests.contracts.apiserver.suite import Case
from tgp.sim.loop import run as run_in_virtual_time
from tools.controlplane.fixtures import a_control_plane
from tools.controlplane.plane import ControlPlane, Wanted


@pytest.fixture(scope="module")
def contract_plane(pytestconfig: pytest.Config) -> Iterator[ControlPlane]:
    """The suite's own: it compacts etcd and counts on names that are not used elsewhere."""
    with a_control_plane(pytestconfig, Wanted()) as plane:
        yield plane


@pytest.fixture(scope="module")
def truth(contract_plane: ControlPlane) -> dict[str, Outcome]:
    """What the real kube-apiserver answered, by case."""

    async def record() -> dict[str, Outcome]:
        async with real_host(contract_plane) as host:
            await prepare(host)
            return await run(host, all_cases())

    return asyncio.run(record())


@pytest.fixture(scope="session")
def pretence() -> dict[str, Outcome]:
    """What the in-memory server answered, by case."""
    return told_by(honest, all_cases())


@pytest.fixture(scope="module")
def caught(truth: dict[str, Outcome], pretence: dict[str, Outcome]) -> dict[str, list[str]]:
    """For each planted lie, the cases that noticed it: they agree about the honest server and not about the liar."""
    found: dict[str, list[str]] = {}
    for lie in LIES:
        cases = [case for case in cases_of(*lie.areas) if not difference(truth[case.name], pretence[case.name])]
        with lie.planted() as make:
            outcomes = told_by(make, cases)
        found[lie.name] = [case.name for case in cases if difference(truth[case.name], outcomes[case.name])]
    return found


def told_by(make: Make, cases: list[Case]) -> dict[str, Outcome]:
    """The outcomes of `cases` on a server in memory, in virtual time."""

    async def record() -> dict[str, Outcome]:
        host = fake_host(make)
        await prepare(host)
        return await run(host, cases)

    return run_in_virtual_time(record())
