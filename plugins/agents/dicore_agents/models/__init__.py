"""Networks of teams: layers of several agents, values, and how they are mixed."""
