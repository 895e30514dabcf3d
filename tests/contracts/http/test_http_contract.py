"""One suite over real sockets and over the router in memory: the pretend network does not lie."""

from collections.abc import Callable

import pytest

from tests.contracts.http.cases import CASES
from tests.contracts.http.sides import Case, through_kept_sockets, through_sockets, through_the_router

DOORS = (through_sockets, through_kept_sockets, through_the_router)


@pytest.mark.parametrize("through", DOORS, ids=lambda side: side.__name__)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_every_http_keeps_the_contract(case: Case, through: Callable[[Case], None]):
    through(case)
