"""Network of phasic policy gradient."""
