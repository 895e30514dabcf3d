"""CRDs that are older than the operator needs."""

import copy

import pytest

from tgp.api.crds import crds
from tgp.core.classes.kinds import fields_of, lacking, outdated

OURS = {each["spec"]["names"]["kind"]: each for each in crds()}


@pytest.mark.parametrize("kind", OURS)
def test_ours_have_what_we_need_and_fields_within_lists_count(kind):
    found = fields_of(OURS[kind])

    assert {"spec", "status", "status.conditions", "status.conditions.reason"} <= found


def test_a_field_that_is_not_there_is_named():
    older = copy.deepcopy(OURS["GPURequest"])
    del older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["attempts"]
    missing = fields_of(OURS["GPURequest"]) - fields_of(older)
    said = outdated({"gpurequests.tgp.io": sorted(missing)}, "9.9.9")

    assert "status.attempts" in missing
    assert said.startswith("The CRDs are older than operator 9.9.9 needs: CRD gpurequests.tgp.io does not have")
    assert f"and {len(missing) - 3} more" in said
    assert said.endswith("Update the CRDs: tgp crds apply")


def test_more_fields_than_needed_are_no_problem():
    assert not fields_of({}) - fields_of(OURS["GPURequest"])
    assert outdated({}, "9.9.9") == ""


def test_a_version_that_is_not_served_does_not_count():
    older = copy.deepcopy(OURS["GPURequest"])
    older["spec"]["versions"][0]["served"] = False

    assert fields_of(older) == frozenset()


@pytest.mark.parametrize(
    ("schema", "missing"),
    [
        ({"properties": {"spec": {"properties": {"old": {}}}}}, {"spec.new"}),
        ({"properties": {"spec": {"x-kubernetes-preserve-unknown-fields": True}}}, set()),
        ({"x-kubernetes-preserve-unknown-fields": True}, set()),
    ],
    ids=["older", "keeps what it does not know below spec", "keeps everything"],
)
def test_a_definition_that_keeps_unknown_fields_lacks_none(schema, missing):
    definition = {"spec": {"versions": [{"served": True, "schema": {"openAPIV3Schema": schema}}]}}

    assert lacking({"spec.old", "spec.new"}, definition) == missing
