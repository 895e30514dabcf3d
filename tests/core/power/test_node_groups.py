"""Machines as the environment or a settings file names them; what is wrong is refused by name."""

from typing import Any

import pytest

from tgp.app.settings import BadSetting, load
from tgp.core.classes.power_hosts import STRICT
from tgp.core.power.node_groups import BadNodeGroup, NodeGroup, manifests_of, of_environment, of_file

ONE = {
    "GPU_NODE_1_NAME": "gpu-worker-1",
    "GPU_NODE_1_GPU_COUNT": "4",
    "GPU_NODE_1_SCALE_UP_ENDPOINT": "http://power-api/gpu-worker-1/start",
    "GPU_NODE_1_SCALE_DOWN_ENDPOINT": "http://power-api/gpu-worker-1/stop",
}
TWO = {key.replace("GPU_NODE_1", "CELLAR"): value.replace("worker-1", "worker-2") for key, value in ONE.items()}
ROW = {
    "name": "gpu-worker-1",
    "gpuCount": 4,
    "scaleUpEndpoint": "http://power-api/gpu-worker-1/start",
    "scaleDownEndpoint": "http://power-api/gpu-worker-1/stop",
}
GROUP = NodeGroup("gpu-worker-1", 4, "http://power-api/gpu-worker-1/start", "http://power-api/gpu-worker-1/stop")


def test_any_prefix_names_a_machine():
    usual = {"PATH": "/bin", "HOSTNAME": "pod", "POD_NAME": "tgp-0", "NVIDIA_GPU_COUNT": "8", "_NAME": "x"}
    found = of_environment({**usual, **TWO, **ONE}, STRICT)

    assert [each.name for each in found] == ["gpu-worker-1", "gpu-worker-2"]
    assert found[0] == GROUP
    assert of_environment(usual, STRICT) == ()


@pytest.mark.parametrize("missing", sorted(ONE))
def test_a_half_given_machine_is_refused_by_name(missing):
    said = {key: value for key, value in ONE.items() if key != missing}

    with pytest.raises(BadNodeGroup, match=rf"GPU_NODE_1: a machine needs all four variables; missing: {missing}$"):
        of_environment(said, STRICT)


@pytest.mark.parametrize("given", [name for name in sorted(ONE) if not name.endswith("_NAME")])
def test_one_variable_of_a_machine_alone_is_refused_by_name(given):
    """A name alone says nothing: POD_NAME is one."""
    with pytest.raises(
        BadNodeGroup, match=r"^GPU_NODE_1: a machine needs all four variables; missing: GPU_NODE_1_NAME"
    ):
        of_environment({given: ONE[given]}, STRICT)


@pytest.mark.parametrize("before", ["", "_"])
def test_variables_without_a_prefix_are_refused_by_name(before):
    said = {key.replace("GPU_NODE_1_", before): value for key, value in ONE.items()}

    with pytest.raises(
        BadNodeGroup, match=r"^SCALE_UP_ENDPOINT: the variables of a machine have a prefix, such as GPU_N"
    ):
        of_environment(said, STRICT)


REFUSED = {
    "GPU_NODE_1_GPU_COUNT": ["four", "0", "-1", "1025", "4.0", "٤", "9" * 5000],
    "GPU_NODE_1_NAME": ["Gpu_Worker", "a" * 64, "-", "a b"],
    "GPU_NODE_1_SCALE_UP_ENDPOINT": [
        "power-api/start",
        "ftp://power-api/",
        "http://127.0.0.1/on",
        "http://169.254.1.1/",
    ],
    "GPU_NODE_1_SCALE_DOWN_ENDPOINT": ["http://user@power-api/", "http://power-api:22/"],
}


@pytest.mark.parametrize(("variable", "value"), [(name, value) for name, values in REFUSED.items() for value in values])
def test_a_value_that_cannot_be_is_refused_by_its_variable(variable, value):
    with pytest.raises(BadNodeGroup, match=rf"^{variable}: ") as error:
        of_environment({**ONE, variable: value}, STRICT)

    assert len(str(error.value)) < 400


def test_two_prefixes_for_one_machine_are_refused_by_both_names():
    with pytest.raises(BadNodeGroup, match="GPU_NODE_1_NAME: CELLAR_NAME names gpu-worker-1, too"):
        of_environment({**ONE, **TWO, "CELLAR_NAME": "gpu-worker-1"}, STRICT)


def test_a_file_names_machines_as_the_chart_of_the_ancestor_did():
    assert of_file([ROW], "nodeGroups", STRICT) == (GROUP,)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ({"a": 1}, "nodeGroups: not a list"),
        (["a"], r"nodeGroups\[0\]: not a mapping"),
        ([{**ROW, "gpuCount": "many"}], r"nodeGroups\[0\].gpuCount: 'many'"),
        ([{**ROW, "watts": 3}], r"nodeGroups\[0\]: a machine has .* unknown: watts"),
        ([{key: value for key, value in ROW.items() if key != "name"}], "missing: name"),
        ([ROW, ROW], r"nodeGroups\[1\].name: gpu-worker-1 is named twice"),
    ],
)
def test_a_bad_file_is_refused_by_the_field(rows: Any, words: str):
    with pytest.raises(BadNodeGroup, match=words):
        of_file(rows, "nodeGroups", STRICT)


def test_settings_have_the_machines_of_both_and_the_environment_wins():
    settings = load({}, {**ONE, "GPU_NODE_1_GPU_COUNT": "8"}, {"nodeGroups": [ROW, {**ROW, "name": "box"}]})

    assert [(each.name, each.gpu_count) for each in settings.node_groups] == [("box", 4), ("gpu-worker-1", 8)]
    with pytest.raises(BadSetting, match="GPU_NODE_1_GPU_COUNT"):
        load({}, {**ONE, "GPU_NODE_1_GPU_COUNT": "many"})


def test_a_class_and_a_pool_of_them():
    node_class, pool = manifests_of((GROUP,), "tgp-system")

    assert node_class["spec"]["providers"][0]["settings"]["machines"] == [ROW]
    assert (pool["metadata"]["namespace"], pool["spec"]["nodeClassRef"]["name"]) == ("tgp-system", "power-nodes")
