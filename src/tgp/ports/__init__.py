"""The door frames: everything that enters or leaves the process passes one of these protocols."""
