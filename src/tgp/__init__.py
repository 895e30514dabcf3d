"""tgp: rents GPU machines for a Talos cluster when pods need them, and terminates them when they are idle."""

__version__ = "0.1.0"
