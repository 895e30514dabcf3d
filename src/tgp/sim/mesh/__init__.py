"""Pretend control servers of private networks, and the machines' side of them."""
