"""Networks that turn observations into features; models put heads on them."""
