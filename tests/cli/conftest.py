"""Fixtures that several files of this folder share."""

from collections.abc import Iterator

import pytest

from tests.cli.money_world import MoneyWorld, a_money_world
from tests.documents import documents_fit_their_schemas

__all__ = ["documents_fit_their_schemas"]


@pytest.fixture
def money() -> Iterator[MoneyWorld]:
    with a_money_world() as found:
        yield found
