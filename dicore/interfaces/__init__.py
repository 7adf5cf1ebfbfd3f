"""One file per role: the Protocol that callers rely on, and the `Kind` it is registered under."""
