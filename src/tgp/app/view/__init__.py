"""The live view: a running operator and its cluster, gathered and shown to the user."""
