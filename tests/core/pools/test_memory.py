"""What a process remembers of its plans."""

from tests.core.pools.builders import a_request, an_order
from tgp.controllers.pools.memory import ExpectedRequest, PoolMemory


def test_a_new_request_does_not_inherit_why_an_earlier_one_of_its_name_was_withdrawn():
    """Retries of a move reuse names."""
    memory, record = PoolMemory(), a_request()
    memory.withdrew(record.key, "SoldOut: none is left")
    memory.expect(record.key, ExpectedRequest(record, an_order(), 0.0))

    assert memory.withdrawals == {}
    assert memory.offers == {record.key: an_order().offer}
