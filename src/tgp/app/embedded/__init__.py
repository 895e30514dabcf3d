"""The embedded world: what lives in it, what happens in it, and how it is reached."""
