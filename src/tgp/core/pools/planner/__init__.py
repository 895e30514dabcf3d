"""The planner: the cheapest set of machines that serves the pods that wait, and how close to the best it is."""
