"""What commands print with `--json`: a type for each output, and JSON Schema made from it."""
