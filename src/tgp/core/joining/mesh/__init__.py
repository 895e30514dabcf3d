"""Which mesh a machine joins, and whether it has joined."""
