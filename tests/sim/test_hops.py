"""What `python -m tools.shape` says of a purchase is counted in a simulated one."""

from tests.sim.hops import hops


def test_a_purchase_goes_through_the_functions_that_are_counted():
    counted = hops()
    names = {code.co_qualname for code in counted.path}

    assert {"RequestReconciler.reconcile", "next_step", "SimulatedCloud.launch", "Queue.add"} <= names
    assert 0 < counted.depth < counted.hops
