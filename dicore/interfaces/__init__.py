"""One file per role: the Protocol that callers rely on, and the `Kind` that config and suites use."""
