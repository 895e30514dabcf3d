"""Shared values live as long as they are used, and not much longer."""

import pytest

from tgp.adapters.kube.interning import FEW, InternPool


class Value:
    def __init__(self, document: bytes) -> None:
        self.document = document


def a_document(number: int) -> bytes:
    return b"%d" % number


def test_equal_documents_give_the_same_value():
    pool: InternPool[bytes, Value] = InternPool(Value)

    assert pool.share(b"a") is pool.share(b"a")
    assert pool.share(b"a") is not pool.share(b"b")


def test_unused_values_are_dropped():
    """A million pods that come and go leave no more behind than a few hundred."""
    pool: InternPool[bytes, Value] = InternPool(Value)
    for number in range(100_000):
        pool.share(a_document(number))

    assert len(pool) <= 2 * FEW


def test_what_is_used_stays_shared():
    pool: InternPool[bytes, Value] = InternPool(Value)
    used = [pool.share(a_document(number)) for number in range(1000)]
    for number in range(1000, 50_000):
        pool.share(a_document(number))

    assert all(pool.share(a_document(number)) is value for number, value in enumerate(used))
    assert len(pool) <= 2 * (len(used) + FEW)


def test_what_was_given_up_leaves_while_the_rest_stays():
    pool: InternPool[bytes, Value] = InternPool(Value)
    used = [pool.share(a_document(number)) for number in range(2000)]
    del used[1000:]
    pool.tend(2000)

    assert len(pool) == 1000


def test_names_that_are_their_own_value_leave_as_well():
    pool: InternPool[str, str] = InternPool(str)
    used = [pool.share(f"node-{number}") for number in range(2000)]
    pool.tend(2000)
    assert len(pool) == 2000
    del used[1000:]
    pool.tend(2000)

    assert len(pool) == 1000


def test_tending_an_emptied_pool_is_no_trouble():
    pool: InternPool[bytes, Value] = InternPool(Value)
    used = [pool.share(a_document(number)) for number in range(2000)]
    used.clear()
    pool.tend(10_000)

    assert len(pool) == 0


def test_a_document_that_cannot_be_read_leaves_nothing_behind():
    def refuse(document: bytes) -> Value:
        raise ValueError(document)

    pool: InternPool[bytes, Value] = InternPool(refuse)
    with pytest.raises(ValueError):
        pool.share(b"x")

    assert len(pool) == 0
