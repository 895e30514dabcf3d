"""How a rented machine becomes a Node of the cluster: what it gets, and what is removed after it has joined."""
