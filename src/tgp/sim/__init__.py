"""The simulation: virtual time, a network with faults, an API server, a cluster, providers and machines."""
