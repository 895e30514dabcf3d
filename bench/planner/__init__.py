"""Speed and closeness to the best possible plan of the planner."""
