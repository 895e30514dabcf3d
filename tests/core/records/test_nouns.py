"""Quantities, amounts, selectors, taints: decided as Kubernetes decides them."""

import pytest

from tgp.api.quantity import LARGEST, NotAQuantity, milli, whole
from tgp.core.model.labels import EVERYTHING, NOTHING_AT_ALL, LabelRequirement, selector
from tgp.core.model.placement import NodeTerm
from tgp.core.model.resources import NOTHING, Resources, read_resources
from tgp.core.model.taints import Taint, Toleration, untolerated


@pytest.mark.parametrize(
    ("written", "in_milli", "in_whole"),
    [
        ("500m", 500, 1),
        ("2", 2000, 2),
        (2, 2000, 2),
        (0.5, 500, 1),
        ("1.5", 1500, 2),
        (".5", 500, 1),
        ("1e3", 1_000_000, 1000),
        ("2E", LARGEST, 2 * 10**18),
        ("1Ki", 1_024_000, 1024),
        ("64Gi", 64 * 1024**3 * 1000, 64 * 1024**3),
        ("1n", 1, 1),
        ("100u", 1, 1),
        ("-500m", -500, -1),
        ("0", 0, 0),
        ("9e999", LARGEST, LARGEST),
    ],
)
def test_quantities_become_integers_rounded_up(written, in_milli, in_whole):
    assert (milli(written), whole(written)) == (in_milli, in_whole)


@pytest.mark.parametrize("written", ["", "lots", "1 Gi", "1gi", "0x10", "1e", "Gi", "1" * 100, True, "inf", "nan"])
def test_what_is_no_quantity_is_said_to_be_none(written):
    with pytest.raises(NotAQuantity):
        whole(written)


def test_amounts_add_and_compare_by_resource():
    gpu = read_resources({"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": 1})
    more = read_resources({"cpu": 1, "amd.com/gpu": "2"})

    assert gpu + more == Resources(1500, 1 << 30, (("amd.com/gpu", 2), ("nvidia.com/gpu", 1)))
    assert gpu.at_least(more) == Resources(1000, 1 << 30, (("amd.com/gpu", 2), ("nvidia.com/gpu", 1)))
    assert gpu + NOTHING == gpu
    assert gpu.fits_in(gpu + more)
    assert not (gpu + more).fits_in(gpu)
    assert gpu.fits_in(Resources(500, 1 << 30, (("amd.com/gpu", -1), ("nvidia.com/gpu", 1))))
    assert Resources(500).fits_in(Resources(500, -1))  # too much memory is in use, but none is requested
    assert (gpu.milli("nvidia.com/gpu"), gpu.milli("cpu"), gpu.of("memory"), gpu.of("other")) == (1000, 500, 1 << 30, 0)


@pytest.mark.parametrize(
    ("requirement", "labels", "admitted"),
    [
        (LabelRequirement("a", "In", ("x", "y")), {"a": "x"}, True),
        (LabelRequirement("a", "In", ("x",)), {}, False),
        (LabelRequirement("a", "NotIn", ("x",)), {}, True),
        (LabelRequirement("a", "NotIn", ("x",)), {"a": "x"}, False),
        (LabelRequirement("a", "Exists"), {"a": ""}, True),
        (LabelRequirement("a", "DoesNotExist"), {"a": ""}, False),
        (LabelRequirement("a", "Gt", ("4",)), {"a": "5"}, True),
        (LabelRequirement("a", "Gt", ("5",)), {"a": "5"}, False),
        (LabelRequirement("a", "Lt", ("5",)), {"a": "four"}, False),
        (LabelRequirement("a", "Lt", ("5",)), {}, False),
        (LabelRequirement("a", "Gt", ("+5",)), {"a": "007"}, True),
        (LabelRequirement("a", "Lt", ("1_0",)), {"a": "5"}, False),  # no integer to Go, though one to Python
        (LabelRequirement("a", "Gt", ("5",)), {"a": "1_0"}, False),
        (LabelRequirement("a", "Gt", ("5",)), {"a": str(2**63)}, False),
        (LabelRequirement("a", "Lt", (str(2**63),)), {"a": "5"}, False),
        (LabelRequirement("a", "Like", ("x",)), {"a": "x"}, False),
    ],
)
def test_requirements(requirement, labels, admitted):
    assert requirement.admits(labels) is admitted


def test_selectors_need_every_requirement():
    both = selector({"a": "1"}, [LabelRequirement("b", "Exists")])

    assert both.selects({"a": "1", "b": ""})
    assert not both.selects({"a": "1"})
    assert EVERYTHING.selects({})
    assert not NOTHING_AT_ALL.selects({})


def test_an_empty_node_selector_term_admits_no_node():
    assert not NodeTerm().admits("n", {})


GPU = Taint("nvidia.com/gpu", "NoSchedule", "present")


@pytest.mark.parametrize(
    ("toleration", "covered"),
    [
        (Toleration(operator="Exists"), True),
        (Toleration(key="nvidia.com/gpu", operator="Exists"), True),
        (Toleration(key="nvidia.com/gpu", value="present"), True),
        (Toleration(key="nvidia.com/gpu", value="absent"), False),
        (Toleration(key="nvidia.com/gpu", operator="Exists", effect="NoExecute"), False),
        (Toleration(key="other", operator="Exists"), False),
        (Toleration(key="nvidia.com/gpu", operator="", value="present"), True),
    ],
)
def test_tolerations(toleration, covered):
    assert (untolerated([GPU], [toleration]) is None) is covered


def test_a_preference_excludes_no_pod():
    assert untolerated([Taint("a", "PreferNoSchedule")], []) is None
