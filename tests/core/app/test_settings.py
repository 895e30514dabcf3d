from datetime import timedelta

import pytest

from tgp.api.values import NEVER
from tgp.app.settings import TABLE, BadSetting, Settings, load


def test_nothing_given_gives_the_defaults():
    assert load({}, {}) == Settings()


def test_a_flag_beats_the_environment_which_beats_the_file():
    flags, environ, document = (
        {"workers": "3"},
        {"TGP_WORKERS": "5", "TGP_CONTEXT": "home"},
        {"workers": 7, "context": "x"},
    )

    assert load(flags, environ, document).workers == 3
    assert load({}, environ, document).workers == 5
    assert load({}, {}, document).workers == 7
    assert load(flags, environ, document).context == "home"


def test_the_file_may_nest():
    settings = load(
        {}, {}, {"lease": {"duration": "30s", "renewDeadline": "20s"}, "networking": {"backend": "kubespan"}}
    )

    assert settings.lease_duration == timedelta(seconds=30)
    assert settings.networking_backend == "kubespan"


@pytest.mark.parametrize(
    ("flags", "environ", "document", "words"),
    [
        ({"workers": "many"}, {}, None, "--workers: 'many' is not a whole number"),
        ({"workers": "0"}, {}, None, "--workers: 0 is not between 1 and 64"),
        ({}, {"TGP_WORKERS": "99"}, None, "TGP_WORKERS: 99 is not between 1 and 64"),
        ({}, {}, {"workers": 99}, "file: workers: 99 is not between 1 and 64"),
        ({}, {"TGP_OBSERVE": "perhaps"}, None, "TGP_OBSERVE: 'perhaps' is not true or false"),
        ({}, {}, {"lease": {"duration": "soon"}}, "file: lease.duration: .*must be a duration"),
        ({}, {}, {"lease": {"duration": "0s"}}, "not longer than zero"),
        ({}, {}, {"lease": {"duration": "5s"}}, r"--renew-deadline \(10s\) < file: lease.duration \(5s\) must hold"),
        ({}, {}, {"worker": 3}, "unknown setting 'worker'; did you mean 'workers'"),
        ({}, {}, {"lease": "15s"}, "unknown setting 'lease'"),
        ({}, {}, ["workers"], "the file must be a mapping"),
        ({"kube_qps": 0}, {}, None, "--kube-qps: 0 is not between 1 and 10000"),
        ({}, {"TGP_KUBE_BURST": "99999"}, None, "TGP_KUBE_BURST: 99999 is not between 1 and 10000"),
        ({"listen": "8080"}, {}, None, "--listen: '8080' is not host:port"),
        ({"https_listen": "8443"}, {}, None, "--https-listen: '8443' is not host:port"),
        (
            {"metrics_listen": "0.0.0.0:8080"},
            {},
            None,
            "is not on loopback. Over a network .*--https-listen 0.0.0.0:8443",
        ),
        ({}, {"TGP_METRICS_LISTEN": "metrics:8080"}, None, "TGP_METRICS_LISTEN: 'metrics:8080' is not on loopback"),
        ({"log_format": "xml"}, {}, None, "--log-format: 'xml' is not one of auto, json, text"),
        ({"power_allowed_hosts": "bad host!"}, {}, None, "--power-allowed-hosts: 'bad host!' is not a host pattern"),
        (
            {"log_level": "inf"},
            {},
            None,
            "--log-level: 'inf' is not one of debug, info, warning, error; did you mean info?",
        ),
        ({}, {}, {"context": 7}, "file: context: expected text"),
        ({"keep_finished": "soon"}, {}, None, "--keep-finished: .*such as 30s, 10m or 1h30m, or Never"),
        ({"keep_finished": "0s"}, {}, None, "--keep-finished: .*not longer than zero"),
        ({}, {}, {"keepFinished": 7}, "file: keepFinished: .*must be a duration"),
        ({}, {}, {"lease": {"duration": "Never"}}, "file: lease.duration: .*must be a duration"),
        ({"require_device_plugin": "sometimes"}, {}, None, "--require-device-plugin: 'sometimes' is not true or false"),
    ],
)
def test_a_wrong_value_is_refused_naming_its_place(flags, environ, document, words):
    with pytest.raises(BadSetting, match=words):
        load(flags, environ, document)


def test_what_has_ended_is_kept_for_a_week_unless_told_otherwise():
    assert load({}, {}).keep_finished == timedelta(hours=168)
    assert load({"keep_finished": "1h30m"}, {}).keep_finished == timedelta(minutes=90)
    assert load({}, {"TGP_KEEP_FINISHED": "Never"}).keep_finished is NEVER
    assert load({}, {}, {"keepFinished": "Never"}).keep_finished is NEVER


@pytest.mark.parametrize("address", ["127.0.0.1:1", "[::1]:1", "localhost:1", ""])
def test_metrics_without_tls_are_for_loopback(address):
    assert load({"metrics_listen": address}, {}).metrics_listen == address


def test_the_pace_of_calls_to_the_api_server_is_a_setting():
    assert (load({}, {}).kube_qps, load({}, {}).kube_burst) == (200, 400)
    assert load({}, {"TGP_KUBE_QPS": "20"}, {"kube": {"qps": 30, "burst": 60}}).kube_qps == 20
    assert load({}, {}, {"kube": {"qps": 30, "burst": 60}}).kube_burst == 60


def test_a_device_plugin_is_asked_for_unless_told_otherwise():
    assert load({}, {}).require_device_plugin
    assert not load({}, {}, {"requireDevicePlugin": False}).require_device_plugin


def test_help_shows_what_to_type_and_a_default_only_where_there_is_one():
    shown = {setting.name: (setting.metavar, setting.shown_default) for setting in TABLE}

    assert shown["power_allowed_hosts"] == ("HOST[,HOST…]", "")
    assert shown["lease_duration"] == ("DURATION", "15s")
    assert shown["observe"] == ("BOOL", "false")
    assert shown["workers"] == ("INT", "4")
    assert shown["kubeconfig"][1] == ""
    assert not {"TUPLE", ""} & {shape for shape, _ in shown.values()}


def test_every_setting_is_documented_and_has_three_names():
    for setting in TABLE:
        assert setting.doc, setting.name
        assert setting.flag.startswith("--")
        assert setting.variable.startswith("TGP_")
        assert setting.key[0].islower()
    assert len({setting.key for setting in TABLE}) == len(TABLE)
