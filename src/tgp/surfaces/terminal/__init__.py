"""The live view: a scene (plain values) drawn for a terminal, or told in lines where there is none."""
