"""The ports: everything that enters or leaves the process passes one of these protocols."""
