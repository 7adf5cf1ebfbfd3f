"""The run: its folder, seeds and streams, checkpoints, signals and logs."""
