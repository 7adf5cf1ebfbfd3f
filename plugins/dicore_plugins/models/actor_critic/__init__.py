"""Networks with an actor and a critic of states."""
