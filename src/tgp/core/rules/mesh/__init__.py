"""Which mesh a machine joins by, and whether it has."""
