"""One file per role: its Protocol and the `Kind` that it is registered under."""
