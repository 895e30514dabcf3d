"""Whether money is ever lost: machines rented and given back for thousands of hours while everything breaks."""

from bench.safety.run import main

__all__ = ["main"]
