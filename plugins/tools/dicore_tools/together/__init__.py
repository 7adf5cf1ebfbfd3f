"""Several seeds in one process, as one batched network; needs dicore-plugins."""
