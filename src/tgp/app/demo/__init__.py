"""The demo world: its API server, machines, scenario and kubeconfig."""
