import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.core.model.labels import LabelRequirement
from tgp.core.pools.requirements import Allowed, Malformed, together

VALUES = ["a", "b", "1", "2", "3"]
values = st.sampled_from(VALUES)
requirements = st.one_of(
    st.builds(
        LabelRequirement, st.just("k"), st.sampled_from(["In", "NotIn"]), st.lists(values, min_size=1).map(tuple)
    ),
    st.builds(LabelRequirement, st.just("k"), st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(LabelRequirement, st.just("k"), st.sampled_from(["Gt", "Lt"]), st.tuples(st.integers(-1, 5).map(str))),
)


@given(st.lists(requirements, max_size=5), st.one_of(st.none(), values))
def test_a_value_is_admitted_exactly_when_each_requirement_is_satisfied(wanted, value):
    """Taking them together loses nothing and invents nothing."""
    allowed = together(wanted).get("k", Allowed())
    labels = {} if value is None else {"k": value}

    assert allowed.admits(value) == all(requirement.admits(labels) for requirement in wanted)


@given(st.lists(requirements, max_size=5))
def test_possible_means_that_some_value_is_admitted(wanted):
    """Unsatisfiable is a promise: no node could ever do."""
    allowed = together(wanted).get("k", Allowed())
    witnesses = [None, *VALUES, "z", *map(str, range(-3, 9))]

    assert allowed.possible() == any(allowed.admits(value) for value in witnesses)


@pytest.mark.parametrize(
    ("requirement", "words"),
    [
        (LabelRequirement("k", "In"), "at least one value"),
        (LabelRequirement("k", "NotIn"), "at least one value"),
        (LabelRequirement("k", "Exists", ("a",)), "no values"),
        (LabelRequirement("k", "DoesNotExist", ("a",)), "no values"),
        (LabelRequirement("k", "Gt", ("1", "2")), "exactly one"),
        (LabelRequirement("k", "Lt", ("many",)), "whole number"),
        (LabelRequirement("k", "Near", ("a",)), "not one of"),
    ],
)
def test_a_malformed_requirement_says_what_would_be_right(requirement, words):
    with pytest.raises(Malformed, match=words):
        together([requirement])
