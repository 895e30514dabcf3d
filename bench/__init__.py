"""Figures beside a peer's, one command each: `python -m bench NAME`. The last line is for machines."""
