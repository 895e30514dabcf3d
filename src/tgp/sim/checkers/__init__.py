"""The invariants, as witnesses of a world: each hears what happens, remembers little, and blames."""
