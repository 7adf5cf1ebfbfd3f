"""Self-play and leagues: sides of a game, players, matchmaking, payoffs and ratings."""
