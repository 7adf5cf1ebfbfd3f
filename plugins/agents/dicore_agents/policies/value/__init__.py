"""Values of teams: each agent's own, and what is made of them."""
