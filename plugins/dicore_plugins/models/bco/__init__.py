"""Network of behavioural cloning from observation."""
