"""Networks that learn from what others did: clones, energies, sequences."""
