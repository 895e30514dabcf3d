"""The rules a CRD cannot express, one object at a time."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tgp.api.decoding import decode
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.api.values import Version
from tgp.core.classes.semantic_validation import (
    RULES,
    class_problems,
    deprecated_in,
    kubelet_problems,
    pool_problems,
    request_against_class,
    request_problems,
    unknown_time_zones,
    unknown_variables,
)
from tgp.core.joining.talos.variables import VARIABLES
from tgp.core.model.cron import NotASchedule, read_schedule


def a_class(**spec):
    made = decode(GPUNodeClass, {"metadata": {"name": "c"}, "spec": {"providers": [{"name": "vast"}], **spec}})
    assert isinstance(made, GPUNodeClass)
    return made


def a_pool(**spec):
    made = decode(GPUNodePool, {"metadata": {"name": "p"}, "spec": {"nodeClassRef": {"name": "c"}, **spec}})
    assert isinstance(made, GPUNodePool)
    return made


def a_request(**spec):
    made = decode(GPURequest, {"metadata": {"name": "r"}, "spec": {"gpuType": "A100", **spec}})
    assert isinstance(made, GPURequest)
    return made


def told(problems):
    return [str(problem) for problem in problems]


def test_a_plain_class_and_pool_and_request_have_no_problems():
    assert class_problems(a_class(instanceRequirements={"gpuTypes": ["RTX4090", "A100"]})) == []
    assert pool_problems(a_pool()) == []
    assert request_problems(a_request()) == []


def test_an_unknown_gpu_is_told_with_the_nearest_names():
    problems = class_problems(a_class(instanceRequirements={"gpuTypes": ["A100", "RTX4099"]}))

    assert len(problems) == 1
    assert str(problems[0]).startswith(
        'spec.instanceRequirements.gpuTypes[1]: Invalid value: "RTX4099": is an unknown GPU model'
    )
    assert "RTX4090" in str(problems[0])


def test_an_unknown_gpu_is_noticed_wherever_one_can_be_named():
    row = {"key": "tgp.io/gpu-type", "operator": "In", "values": ["A100", "B4"]}
    machine = {
        "name": "m",
        "gpuCount": 1,
        "scaleUpEndpoint": "http://a",
        "scaleDownEndpoint": "http://b",
        "gpuType": "Foo1",
    }
    paths = [
        *(p.path for p in pool_problems(a_pool(template={"spec": {"requirements": [row]}}))),
        *(p.path for p in request_problems(a_request(gpuType="Quantum9"))),
        *(
            p.path
            for p in class_problems(a_class(providers=[{"name": "webhook", "settings": {"machines": [machine]}}]))
        ),
    ]

    assert paths == [
        "spec.template.spec.requirements[0].values[1]",
        "spec.gpuType",
        "spec.providers[0].settings.machines[0].gpuType",
    ]


@pytest.mark.parametrize("name", VARIABLES)
def test_every_documented_variable_is_known(name):
    assert list(unknown_variables(f"a: {{{{.{name}}}}}\nb: {{{{ .{name} }}}}", "x")) == []


def test_an_unknown_variable_is_told_with_its_line_and_the_nearest_name():
    template = "machine:\n  token: {{.MachineTokn}}\n  again: {{.MachineTokn}}\n"
    problems = class_problems(a_class(talosConfig={"machineConfigTemplate": template}))

    assert len(problems) == 1
    assert str(problems[0]).startswith("spec.talosConfig.machineConfigTemplate: Invalid value")
    assert problems[0].detail == (
        "line 2: {{.MachineTokn}} is not a template variable; did you mean {{.MachineToken}}?"
    )


@pytest.mark.parametrize(
    "action", ["{{if .X}}", "{{.Values.x}}", "{{ printf .NodeName }}", "{{}}", "{{range}}", "{{.NodeName | quote}}"]
)
def test_there_is_no_template_engine_behind_the_braces(action):
    assert len(list(unknown_variables(f"x: {action}", "x"))) == 1


@settings(deadline=None)  # the machine may be busy with other things
@given(st.text(alphabet="{}. \nNodeame|", max_size=40))
def test_no_template_makes_the_search_stumble(template):
    for problem in unknown_variables(template, "x"):
        assert problem.path == "x"


@pytest.mark.parametrize(
    ("image", "fine"), [("v1.10.0", True), ("v1.14.3", True), ("v1.9.9", False), ("v1.15.0", False), ("v2.10.0", False)]
)
def test_talos_releases_outside_the_supported_ones_are_refused(image, fine):
    assert (class_problems(a_class(talosConfig={"image": image})) == []) is fine
    assert (request_problems(a_request(talosConfig={"image": image})) == []) is fine


def test_an_address_pool_with_host_bits_is_refused():
    problems = class_problems(a_class(talosConfig={"wireGuardConfig": {"addressPool": "10.0.0.5/24"}}))

    assert [problem.path for problem in problems] == ["spec.talosConfig.wireGuardConfig.addressPool"]
    assert class_problems(a_class(talosConfig={"wireGuardConfig": {"addressPool": "10.0.0.0/24"}})) == []


def test_a_kubelet_may_be_older_than_the_api_server_but_not_newer():
    made = a_class(talosConfig={"kubeletImage": "ghcr.io/siderolabs/kubelet:v1.33.1"})

    assert kubelet_problems(made, Version(1, 33, 0)) == []
    assert kubelet_problems(made, Version(1, 34, 0)) == []
    assert "newer than the API server, which is v1.32.9" in told(kubelet_problems(made, Version(1, 32, 9)))[0]


def test_a_time_zone_is_looked_up_among_those_there_are():
    made = a_pool(disruption={"budgets": [{"schedule": "@daily", "duration": "1h", "timeZone": "Europe/Berlyn"}]})

    problems = unknown_time_zones(made, frozenset({"Europe/Berlin", "UTC"}))
    assert [problem.path for problem in problems] == ["spec.disruption.budgets[0].timeZone"]
    assert problems[0].detail == "is not an IANA time zone; did you mean Europe/Berlin?"
    assert unknown_time_zones(made, frozenset({"Europe/Berlyn"})) == []


def test_a_schedule_that_cannot_be_read_is_told():
    problems = pool_problems(a_pool(disruption={"budgets": [{"schedule": "0 25 * * *", "duration": "1h"}]}))

    assert told(problems) == [
        'spec.disruption.budgets[0].schedule: Invalid value: "0 25 * * *": hour: 25 is not between 0 and 23'
    ]


def test_a_request_stays_within_its_class():
    node_class = a_class(
        tailscaleConfig={"tags": ["tag:gpu"], "acceptRoutes": True, "advertiseRoutes": ["10.0.0.0/24"]}
    )
    inside = {"tags": ["tag:gpu"], "ephemeral": True, "acceptRoutes": True, "advertiseRoutes": ["10.0.0.0/24"]}
    outside = {"tags": ["tag:admin"], "ephemeral": False, "acceptRoutes": False, "advertiseRoutes": ["0.0.0.0/0"]}

    assert request_against_class(a_request(talosConfig={"tailscaleConfig": inside}), node_class) == []
    assert request_against_class(a_request(), node_class) == []
    assert [
        p.path.rpartition(".")[2]
        for p in request_against_class(a_request(talosConfig={"tailscaleConfig": outside}), node_class)
    ] == [
        "tags",
        "ephemeral",
        "acceptRoutes",
        "advertiseRoutes",
    ]


def test_deprecated_fields_are_told_with_the_release_that_drops_them():
    node_class = a_class(
        talosConfig={"wireGuardConfig": {"addressPool": "10.0.0.0/24"}, "tailscaleConfig": {"tags": ["tag:x"]}}
    )

    told_of_class = deprecated_in(node_class)
    assert [line.partition(":")[0] for line in told_of_class] == [
        "spec.talosConfig.wireGuardConfig",
        "spec.talosConfig.tailscaleConfig",
    ]
    assert all(line.endswith("Dropped in v2.") for line in told_of_class)
    assert [line.partition(":")[0] for line in deprecated_in(a_request(ttl="1h"))] == ["spec.ttl"]
    assert deprecated_in(a_class()) == ()


def test_every_rule_of_the_list_says_who_judges_it():
    assert all(rule.what and rule.where and rule.judged_by for rule in RULES)


@pytest.mark.parametrize(
    "text",
    [
        "* * * * *",
        "0 9 * * 1-5",
        "*/15 0-6,22 1 JAN-MAR mon,WED",
        "@daily",
        "0 0 29 2 *",
        "5/10 * * * ?",
        "0 0 31 2 1",
        "0 0 * * 7",
    ],
)
def test_a_schedule_of_five_fields_is_read(text):
    assert read_schedule(text).minutes


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("* * * *", "4 fields"),
        ("60 * * * *", "minute"),
        ("* 24 * * *", "hour"),
        ("* * 0 * *", "day of month"),
        ("* * * 13 *", "month"),
        ("* * * * 8", "day of week"),
        ("5-1 * * * *", "ends before it begins"),
        ("*/0 * * * *", "step"),
        ("a * * * *", "not a value"),
        ("1,,2 * * * *", "not a value"),
        ("@fortnightly", "1 fields"),
        ("0 0 31 2 *", "never matches"),
        ("0 0 31 4,6,9,11 *", "never matches"),
        ("", "0 fields"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused_with_the_reason(text, why):
    with pytest.raises(NotASchedule, match=why):
        read_schedule(text)


def test_sunday_is_nought_and_seven():
    assert read_schedule("0 0 * * 7").weekdays == read_schedule("0 0 * * sun").weekdays == {0}


@settings(deadline=None)  # the machine may be busy with other things
@given(st.text(alphabet="0123456789*,/-? @aju", max_size=30))
def test_no_text_makes_reading_a_schedule_stumble(text):
    try:
        read = read_schedule(text)
    except NotASchedule:
        return
    assert read.minutes
    assert read.months
