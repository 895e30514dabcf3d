"""The model village in the cellar: virtual time, a network with weather, an API server, a cluster, machines."""
