"""Manifests written for earlier versions apply as they were written."""

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.contracts.kinds.real_api_server import RealApiServer
from tgp.api.decoding import kind_of, strict
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.core.classes.semantic_validation import class_problems, pool_problems, request_problems

SEEDS = Path(__file__).parents[3] / "deploy" / "examples" / "seeds"
EARLY = sorted([*(Path(__file__).parent / "early").glob("*.yaml"), *SEEDS.glob("*.yaml")])


def read(path: Path) -> dict:
    return YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))


def test_there_are_early_manifests():
    """Of every kind that earlier versions had; an empty folder would prove nothing."""
    assert {read(path)["kind"] for path in EARLY} == {"GPUNodeClass", "GPUNodePool", "GPURequest", "GPUWorkloadBudget"}


@pytest.mark.parametrize("path", EARLY, ids=lambda path: path.stem)
def test_an_early_manifest_is_taken_by_the_real_api_server_and_by_us(path: Path, real_server: RealApiServer):
    """Field validation is strict, as kubectl's is: nothing is silently dropped."""
    manifest = read(path)
    answer = real_server.try_create(kind_of(manifest), manifest)

    assert answer.accepted, answer.message
    read_by_us = strict(manifest)
    if isinstance(read_by_us, GPUNodeClass):
        assert class_problems(read_by_us) == []
    if isinstance(read_by_us, GPUNodePool):
        assert pool_problems(read_by_us) == []
    if isinstance(read_by_us, GPURequest):
        assert request_problems(read_by_us) == []
    assert set(manifest["spec"]) <= set(answer.body["spec"])
