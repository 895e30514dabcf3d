"""Reading our kinds: tolerant with the API server, strict with users."""

import json
from contextlib import suppress
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tgp.api.budget import GPUWorkloadBudget, LegacyBudget
from tgp.api.decoding import UnreadableObject, decode, strict
from tgp.api.field_error import Invalid
from tgp.api.kinds import KINDS
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import Disruption, DisruptionRule, GPUNodePool
from tgp.api.request import GPURequest


def a_class(**spec):
    return {
        "apiVersion": "tgp.io/v1",
        "kind": "GPUNodeClass",
        "metadata": {"name": "standard", "uid": "u-1", "generation": 3, "creationTimestamp": "2026-01-02T03:04:05Z"},
        "spec": {"providers": [{"name": "vast.ai"}], **spec},
    }


def a_request(**spec):
    return {
        "apiVersion": "tgp.io/v1",
        "kind": "GPURequest",
        "metadata": {"name": "r"},
        "spec": {"gpuType": "A100", **spec},
    }


def test_an_object_is_read_with_its_names_in_python_and_its_defaults():
    read = decode(GPUNodeClass, a_class(instanceRequirements={"minVCPU": 8, "minGPUMemoryGiB": 24}))

    assert isinstance(read, GPUNodeClass)
    assert read.metadata.creation_timestamp == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert (read.spec.instance_requirements.min_vcpu, read.spec.instance_requirements.min_gpu_memory_gib) == (8, 24)
    assert read.spec.providers[0].name == "vast.ai"  # stored as written
    assert read.spec.providers[0].enabled
    assert read.spec.selection == "Price"


def test_bytes_and_values_are_read_alike():
    made = a_class()

    assert decode(GPUNodeClass, json.dumps(made).encode()) == decode(GPUNodeClass, made)


def test_fields_and_words_of_a_newer_release_are_passed_over():
    """An older replica must not be blinded by a newer CRD."""
    read = decode(GPUNodeClass, a_class(selection="Greenest", moonPhase={"full": True}))

    assert isinstance(read, GPUNodeClass)
    assert read.spec.selection == "Greenest"


@pytest.mark.parametrize(
    "broken",
    [
        a_class(providers="all of them"),
        a_class(limits={"maxNodes": "ten"}),
        {**a_class(), "spec": None},
        {"metadata": {"name": "standard", "uid": "u-1"}},
        {**a_class(), "status": {"activeNodes": "many"}},
    ],
)
def test_an_object_that_cannot_be_read_still_says_who_it_is(broken):
    """It may own machines: losing it would lose them."""
    read = decode(GPUNodeClass, broken)

    assert isinstance(read, UnreadableObject)
    assert (read.metadata.name, read.metadata.uid) == ("standard", "u-1")
    assert read.why
    assert read.raw == broken


def test_one_unreadable_part_of_the_metadata_does_not_hide_the_rest():
    read = decode(GPUNodeClass, {"metadata": {"name": "standard", "labels": "none", "finalizers": ["tgp.io/x"]}})

    assert isinstance(read, UnreadableObject)
    assert (read.metadata.name, read.metadata.labels, read.metadata.finalizers) == ("standard", {}, ("tgp.io/x",))


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff"])
def test_what_is_not_even_an_object_is_unreadable(data):
    assert isinstance(decode(GPURequest, data), UnreadableObject)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "spec", "providers", "x"]), inner)
    ),
    max_leaves=8,
)


@settings(deadline=None)  # the machine may be busy with other things
@given(st.sampled_from([kind.type for kind in KINDS]), JSON, JSON)
def test_reading_never_raises(type_, spec, metadata):
    read = decode(type_, {"metadata": metadata, "spec": spec})

    assert isinstance(read, type_ | UnreadableObject)


def test_what_equals_its_default_is_not_written():
    """Patches and generated manifests stay small, and two ways to say the same are one."""
    assert msgspec.to_builtins(Disruption()) == {}
    assert msgspec.to_builtins(DisruptionRule(nodes=0, time_zone="UTC")) == {"nodes": 0, "timeZone": "UTC"}


def test_secrets_do_not_show_where_values_are_printed():
    key = "S" * 43 + "="
    talos = {
        "wireGuardConfig": {"privateKey": key, "address": "10.0.0.1/24"},
        "machineConfigTemplate": "token: hunter2",
    }
    shown = repr(decode(GPUNodeClass, a_class(talosConfig=talos)))

    assert key not in shown
    assert "hunter2" not in shown
    assert "private_key=***, address='10.0.0.1/24'" in shown
    assert key not in repr(decode(GPURequest, a_request(talosConfig={"wireGuardConfig": {"privateKey": key}})))


def test_a_malformed_private_key_is_refused_without_being_shown():
    with pytest.raises(Invalid) as refusal:
        strict(a_request(talosConfig={"wireGuardConfig": {"privateKey": "hunter2"}}))

    assert refusal.value.problems[0].path == "spec.talosConfig.wireGuardConfig.privateKey"
    assert "hunter2" not in str(refusal.value)


def test_a_manifest_a_person_wrote_comes_back_with_defaults():
    read = strict(a_request())

    assert isinstance(read, GPURequest)
    assert (read.spec.idle_timeout, read.spec.gpu_count, read.spec.max_lifetime) == ("30m", 1, None)


def test_every_unknown_field_is_named_with_the_nearest_known_one():
    made = a_class(providers=[{"name": "vast", "setings": {}}], bootpolicy="Any", xyz=1)

    with pytest.raises(Invalid) as refusal:
        strict(made)

    assert [str(problem) for problem in refusal.value.problems] == [
        "spec.bootpolicy: Forbidden: unknown field; did you mean bootPolicy?",
        "spec.providers[0].setings: Forbidden: unknown field; did you mean settings?",
        "spec.xyz: Forbidden: unknown field",
    ]


def test_everything_that_is_wrong_is_told_at_once():
    made = a_request(maxHourlyPrice="two", idleTimeout="soon", gpuCnt=1, ttl="1h", maxLifetime="2h")

    with pytest.raises(Invalid) as refusal:
        strict(made)

    assert {problem.path for problem in refusal.value.problems} == {
        "spec.gpuCnt",
        "spec.maxHourlyPrice",
        "spec.idleTimeout",
        "spec.ttl",
    }


@pytest.mark.parametrize("wrong", [{"kind": "NodeClass"}, {"group": "karpenter.sh"}, {"namespace": "default"}])
def test_a_reference_names_a_class_and_nothing_else(wrong):
    """Group and kind may be left out; another one is not silently taken for ours."""
    assert strict(a_request(nodeClassRef={"name": "c"})) == strict(
        a_request(nodeClassRef={"name": "c", "kind": "GPUNodeClass", "group": "tgp.io"})
    )
    with pytest.raises(Invalid, match=r"spec\.nodeClassRef\."):
        strict(a_request(nodeClassRef={"name": "c", **wrong}))


def test_a_kind_that_is_not_ours_is_refused_by_name():
    with pytest.raises(Invalid, match=r'kind: Unsupported value: "v1 Pod": known kinds are tgp.io/v1 GPUNodeClass'):
        strict({"apiVersion": "v1", "kind": "Pod"})


@pytest.mark.parametrize("metadata", [{}, None, {"name": ""}, {"name": "No Good"}])
def test_a_manifest_needs_a_name_the_api_server_would_take(metadata):
    with pytest.raises(Invalid, match=r"metadata\.name"):
        strict({**a_request(), "metadata": metadata})


def test_metadata_of_the_wrong_shape_is_refused_and_not_a_traceback():
    with pytest.raises(Invalid, match="metadata"):
        strict({**a_request(), "metadata": {"name": "x", "labels": 3}})


@settings(deadline=None)  # the machine may be busy with other things
@given(st.sampled_from(KINDS), JSON, JSON)
def test_whatever_a_person_writes_is_answered_with_fields_not_with_a_traceback(kind, spec, metadata):
    made = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, "metadata": metadata, "spec": spec}
    with suppress(Invalid):
        assert isinstance(strict(made), kind.type)


def test_the_two_kinds_of_budgets_are_told_apart():
    spec = {
        "selector": {"matchLabels": {"team": "a"}},
        "quota": {"gpuHours": "100", "windowHours": 24},
        "enforcement": {"action": "Evict"},
    }
    ours = strict({"apiVersion": "tgp.io/v1", "kind": "GPUWorkloadBudget", "metadata": {"name": "b"}, "spec": spec})
    theirs = strict(
        {
            "apiVersion": "budget.zxuhan.dev/v1alpha1",
            "kind": "GPUWorkloadBudget",
            "metadata": {"name": "b"},
            "spec": spec,
        }
    )

    assert isinstance(ours, GPUWorkloadBudget)
    assert isinstance(theirs, LegacyBudget)
    assert ours.spec.alerts == (80, 100)


def test_python_defaults_and_crd_defaults_are_the_same():
    """An object read from an API server without our CRD's defaults means the same as one read with them."""
    pool = {
        "apiVersion": "tgp.io/v1",
        "kind": "GPUNodePool",
        "metadata": {"name": "p"},
        "spec": {"nodeClassRef": {"name": "c"}},
    }

    assert decode(GPUNodePool, pool) == strict(pool)
    assert decode(GPURequest, a_request()) == strict(a_request())
