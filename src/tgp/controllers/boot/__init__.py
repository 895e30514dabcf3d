"""How a rented machine becomes a Node of the cluster: what it is given, and what is removed when it has joined."""
