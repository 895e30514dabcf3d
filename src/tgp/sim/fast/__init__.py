"""A faster simulation for long runs: the same clock, processes, faults, providers and recorders, no HTTP.

What is left out is the way to the API server (HTTP, JSON, watches as streams of lines) and to a provider's lists. What
a controller can notice of those ways is kept: old views, lost answers, conflicts, cuts, an end of leadership.
"""
