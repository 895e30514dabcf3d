"""Commands that run the operator or a simulation: they use the whole program, so they are part of the app."""
