"""`tgp crds`: print, apply, diff."""

import copy
import json
from contextlib import asynccontextmanager

import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

from tgp.api.crds import ALLOW_OLDER, NUMBER_LABEL
from tgp.api.crds import crds as definitions
from tgp.interfaces.cli.crds import crds
from tgp.ports.cluster import Forbidden, NotFound, Written


class StoredDefinitions:
    """As much of a cluster as the command needs: definitions by name."""

    def __init__(self, *stored, forbidden=False):
        self.stored = {each["metadata"]["name"]: each for each in stored}
        self.forbidden = forbidden

    async def read(self, _resource, key):
        if self.forbidden:
            raise Forbidden(f"reading {key} is not allowed")
        if key.name not in self.stored:
            raise NotFound(str(key))
        return as_stored(self.stored[key.name])

    async def apply(self, _resource, manifest, *, force=False):
        assert force
        self.stored[manifest["metadata"]["name"]] = copy.deepcopy(manifest)
        return Written("2", "u", 1, changed=True)

    @asynccontextmanager
    async def kubernetes(self, *_where):
        yield self


def as_stored(definition):
    """With what an API server adds."""
    stored = copy.deepcopy(definition)
    stored["metadata"] |= {"uid": "u", "resourceVersion": "1", "managedFields": []}
    stored["metadata"]["labels"]["helm.sh/chart"] = "someone-elses"
    stored["spec"]["conversion"] = {"strategy": "None"}
    stored["status"] = {"conditions": []}
    return stored


def run(stored_definitions, *arguments):
    return CliRunner().invoke(crds, arguments, obj=stored_definitions)


def test_printed_yaml_is_the_definitions():
    printed = run(None, "print").output

    assert list(YAML(typ="safe", pure=True).load_all(printed)) == definitions()


def test_printed_json_is_one_list_for_kubectl():
    printed = json.loads(run(None, "print", "-o", "json", "--legacy-budgets").output)

    assert printed["kind"] == "List"
    assert printed["items"] == definitions(legacy=True)


def test_applying_says_what_became_of_each():
    ours = definitions()
    older = copy.deepcopy(ours[1])
    older["spec"]["versions"][0]["additionalPrinterColumns"].pop()
    stored_definitions = StoredDefinitions(ours[0], older)

    assert run(stored_definitions, "apply").output.splitlines() == [
        "gpunodeclasses.tgp.io: unchanged",
        "gpunodepools.tgp.io: changed",
        "gpurequests.tgp.io: created",
        "gpuworkloadbudgets.tgp.io: created",
    ]
    assert stored_definitions.stored["gpunodepools.tgp.io"] == ours[1]


def with_a_field_more(definition):
    newer = copy.deepcopy(definition)
    spec = newer["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["ofTomorrow"] = {"type": "string"}
    return newer


def test_newer_definitions_are_not_replaced_by_older_ones():
    """What live requests have in their new fields would be removed, the record of a machine for example."""
    ours = definitions()
    cluster = StoredDefinitions(with_a_field_more(ours[2]))
    result = run(cluster, "apply")

    assert result.exit_code == 1
    assert "gpurequests.tgp.io is newer than tgp" in result.output
    assert "spec.ofTomorrow" in result.output
    assert list(cluster.stored) == ["gpurequests.tgp.io"], "none is changed"
    assert cluster.stored["gpurequests.tgp.io"] != ours[2]

    assert run(cluster, "apply", "--allow-older").exit_code == 0
    annotated = cluster.stored["gpurequests.tgp.io"]["metadata"].pop("annotations")
    assert annotated == {ALLOW_OLDER: "true"}, "for the policy of the chart"
    assert cluster.stored["gpurequests.tgp.io"] == ours[2]


@pytest.mark.parametrize(("ours", "theirs", "code"), [(2, "3", 1), (2, "1", 0), (2, None, 1), (2, "2", 1)])
def test_a_number_says_which_ones_are_newer_and_without_one_their_fields_do(monkeypatch, ours, theirs, code):
    """A field that a later release has removed is no sign of a newer one."""
    stored = with_a_field_more(definitions()[0])
    del stored["metadata"]["labels"][NUMBER_LABEL]
    stored["metadata"]["labels"] |= {NUMBER_LABEL: theirs} if theirs else {}
    monkeypatch.setattr("tgp.api.crds.NUMBER", ours)
    result = run(StoredDefinitions(stored), "apply")

    assert result.exit_code == code
    assert ("newer than tgp" in result.output) is bool(code)


def test_the_legacy_definition_is_applied_only_when_asked_for():
    stored_definitions = StoredDefinitions()
    run(stored_definitions, "apply")
    assert "gpuworkloadbudgets.budget.zxuhan.dev" not in stored_definitions.stored

    run(stored_definitions, "apply", "--legacy-budgets")
    assert "gpuworkloadbudgets.budget.zxuhan.dev" in stored_definitions.stored


def test_equal_definitions_have_no_difference_whatever_the_server_added():
    result = run(StoredDefinitions(*definitions()), "diff")

    assert (result.exit_code, result.output) == (0, "")


def test_a_difference_is_shown_line_by_line_and_ends_with_one():
    older = definitions()
    weight = older[1]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["weight"]
    weight["maximum"] = 10
    result = run(StoredDefinitions(*older), "diff")

    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert lines[:2] == ["--- cluster/gpunodepools.tgp.io", "+++ tgp/gpunodepools.tgp.io"]
    assert [line.split() for line in lines if line.startswith(("-  ", "+  "))] == [
        ["-", "maximum:", "10"],
        ["+", "maximum:", "100"],
    ]


def test_a_missing_definition_is_all_new():
    result = run(StoredDefinitions(*definitions()[1:]), "diff")

    assert result.exit_code == 1
    assert "+++ tgp/gpunodeclasses.tgp.io" in result.output


def test_as_json_every_kind_is_listed_with_its_difference():
    result = run(StoredDefinitions(*definitions()[1:]), "diff", "-o", "json")
    kinds = {each["name"]: each for each in json.loads(result.output)["kinds"]}

    assert result.exit_code == 1
    assert kinds["gpunodeclasses.tgp.io"]["installed"] is False
    assert [name for name, each in kinds.items() if each["difference"]] == ["gpunodeclasses.tgp.io"]


def test_not_being_able_to_tell_is_not_a_difference():
    result = run(StoredDefinitions(forbidden=True), "diff")

    assert result.exit_code == 2
    assert "not allowed" in result.output


def test_a_refusal_while_applying_is_an_error_without_a_traceback():
    result = run(StoredDefinitions(forbidden=True), "apply")

    assert result.exit_code == 1
    assert result.output.startswith("Error: reading")
