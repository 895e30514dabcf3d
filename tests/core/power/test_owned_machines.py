"""Which class a machine you own is looked up in."""

import pytest

from tests.core.classes.test_refused_machines import a_class
from tgp.ports.cluster import NotFound
from tgp.services.owned_machines import class_with


def test_a_machine_is_that_of_the_class_that_may_use_it_whatever_else_that_class_names():
    first = a_class("first", "box-1", hour=8)
    second = a_class("second", "box-1", "box-2", hour=9)  # box-1 is not for it
    third = a_class("a-third", "box-2", hour=10)

    assert class_with([third, second, first], "box-2") is second
    assert class_with([third, second, first], "box-1") is first


def test_a_name_that_no_class_has_is_told_with_the_nearest():
    with pytest.raises(NotFound, match="there is no owned machine bx-1: did you mean box-1"):
        class_with([a_class("first", "box-1")], "bx-1")
