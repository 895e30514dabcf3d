"""The live view: a snapshot (plain values) drawn on a terminal, or printed as lines without one."""
