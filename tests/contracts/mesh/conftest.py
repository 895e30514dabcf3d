"""Assertions of the stage print what they compared."""

import pytest

pytest.register_assert_rewrite("tests.contracts.mesh.stage")
