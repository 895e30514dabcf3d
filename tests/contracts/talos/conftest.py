"""Talos's own validator, one of each minor release; with TGP_TALOS=all every release that can be had."""

import os

import pytest

from tgp.core.model.talos import TalosVersion, read_version
from tools.judge import Judge
from tools.judge.bench import ALL
from tools.toolbox import JUDGES, OTHER_JUDGES, find

_WANTED = (*JUDGES, *OTHER_JUDGES) if os.environ.get(ALL) == "all" else JUDGES


@pytest.fixture(scope="session", params=_WANTED, ids=lambda tool: tool.version)
def judge(request) -> Judge:
    return Judge(request.param.version, find(request.param))


@pytest.fixture
def version(judge) -> TalosVersion:
    found = read_version(f"v{judge.version}")
    assert found is not None
    return found
