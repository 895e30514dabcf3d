"""What these tests share with those on the real control plane: waiting with a bound."""

from tests.controlplane.conftest import eventually

__all__ = ["eventually"]
