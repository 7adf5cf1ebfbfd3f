"""Config files in Python, YAML and TOML, the control panel, and the Python forms of a run."""
