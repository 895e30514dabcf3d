"""tgp: rents GPU machines for a Talos cluster when pods need them, and gives them back."""

__version__ = "0.1.0"
