"""What runs have come to: learning curves of several runs and seeds, as pictures and as text."""
