"""What `dicore new` writes, a file per kind."""
