"""The invariants of a simulated world: each checker gets every event, keeps little state, and reports violations."""
