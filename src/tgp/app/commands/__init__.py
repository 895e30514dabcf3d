"""Commands that start something: they know the whole house, so they live in the hall."""
