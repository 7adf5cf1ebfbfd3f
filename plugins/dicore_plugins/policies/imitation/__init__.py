"""Learning from demonstrations, alone or beside rewards."""
