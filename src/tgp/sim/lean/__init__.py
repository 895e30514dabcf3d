"""A leaner pretend world, for counting hours: the same clock, processes, weather, providers and witnesses, no wires.

What is left out is the way to the API server (HTTP, JSON, watches as streams of lines) and to a provider's lists. What
a controller can notice of those ways is kept: old views, lost answers, conflicts, cuts, an end of leadership.
"""
