"""`tgp doctor --no-cluster`: the providers are asked from a laptop, and no kubeconfig is read."""

import json
from contextlib import asynccontextmanager

import pytest
from click.testing import CliRunner

from tests.core.controllers.account_access import CLUSTER, a_machine
from tgp.core.model.cloud_errors import CloudBusy
from tgp.core.model.identity import cluster_id
from tgp.core.model.token import cluster_prefix
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
    assert document["notAsked"] == [{"provider": "vultr", "message": "come back later"}]
    assert [one["cluster"] for one in document["machines"]] == [CLUSTER]


@pytest.mark.parametrize("words", [("--fix",), ("--orphans",), ("node/x",)])
def test_it_changes_nothing(words):
    assert asked(*words).exit_code == 2


UID = "6f1f2b1e-7d0a-4f0c-9a51-2f4c0a8f5b11"


@pytest.mark.parametrize("given", [cluster_id(UID), UID, UID.upper()])
def test_one_cluster_is_named_by_its_id_or_by_the_uid_it_comes_from(given):
    ours = a_machine(1, token=f"{cluster_prefix(cluster_id(UID))}{'ab' * 16}-1")
    ended = asked("--cluster-id", given, vultr=(ours, a_machine(2)))

    assert ended.exit_code == 1
    assert ours.id in ended.output
    assert a_machine(2).id not in ended.output


def test_a_cluster_without_machines_is_a_good_end_although_others_have_some():
    ended = asked("--cluster-id", "00000000ff", vultr=(a_machine(1),))

    assert ended.exit_code == 0
    assert "list no machine of cluster 00000000ff." in ended.output


def test_an_id_of_another_form_is_refused_with_where_to_find_one():
    ended = asked("--cluster-id", "homelab")

    assert ended.exit_code == 2
    assert "as tgp doctor and tgp down show it" in ended.output
