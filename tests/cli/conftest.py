"""What several files of this folder stand on."""

from collections.abc import Iterator

import pytest

from tests.cli.money_world import Town, a_town


@pytest.fixture
def town() -> Iterator[Town]:
    with a_town() as found:
        yield found
