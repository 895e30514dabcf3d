"""`tgp doctor --no-cluster`: the providers are asked from a laptop, and no kubeconfig is read."""

import json
from contextlib import asynccontextmanager

import pytest
from click.testing import CliRunner

from tests.core.controllers.account_access import CLUSTER, a_machine
from tgp.core.model.cloud_errors import CloudBusy
from tgp.interfaces.cli.doctor import doctor
from tgp.services.credentials import of_environment
from tgp.services.marked_machines import MARK, marked_machines

KEYS = {"VULTR_API_KEY": "v", "LAMBDA_LABS_API_KEY": "l"}


class Listing:
    def __init__(self, answer) -> None:
        self._answer = answer

    async def owned(self, prefix: str):
        assert prefix == MARK
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


class FakeClouds:
    def __init__(self, **answers) -> None:
        self._answers = answers

    def open(self, source, _key, _others) -> Listing:
        return Listing(self._answers.get(source.provider, ()))


class Laptop:
    """Services without any cluster."""

    def __init__(self, clouds: FakeClouds) -> None:
        self._clouds = clouds

    @asynccontextmanager
    async def market(self, *_where):
        yield self

    async def machines(self):
        return await marked_machines(of_environment((), KEYS), self._clouds)


def asked(*words: str, **answers):
    return CliRunner().invoke(doctor, ["--no-cluster", *words], obj=Laptop(FakeClouds(**answers)))


def test_machines_are_listed_by_the_cluster_that_bought_them():
    two = (a_machine(1, hourly_microusd=1_400_000), a_machine(2, hourly_microusd=None))
    ended = asked(vultr=two)

    assert ended.exit_code == 1
    assert f"Cluster {CLUSTER}: 2 machines cost $1.40 an hour, plus 1 of unknown price." in ended.output
    assert all(machine.id in ended.output for machine in two)
    assert "VAST_API_KEY" in ended.output, "what was not asked is said"


def test_none_is_a_good_end():
    ended = asked()

    assert ended.exit_code == 0
    assert "list no machine that tgp bought" in ended.output


def test_a_provider_that_does_not_answer_is_unknown_and_not_empty():
    ended = asked("-o", "json", vultr=CloudBusy("come back later"), lambdalabs=(a_machine(1),))
    document = json.loads(ended.output)

    assert ended.exit_code == 2
    assert document["notAsked"] == [{"provider": "vultr", "why": "come back later"}]
    assert [one["cluster"] for one in document["machines"]] == [CLUSTER]


@pytest.mark.parametrize("words", [("--fix",), ("--orphans",), ("node/x",)])
def test_it_changes_nothing(words):
    assert asked(*words).exit_code == 2
