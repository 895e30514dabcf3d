"""Whether money is ever lost: machines launched and terminated for thousands of hours under faults."""

from bench.safety.run import main

__all__ = ["main"]
