"""On-policy actor-critic algorithms and those that correct for older samples."""
