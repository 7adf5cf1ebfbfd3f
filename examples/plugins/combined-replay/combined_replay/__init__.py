"""Combined experience replay for dicore."""
