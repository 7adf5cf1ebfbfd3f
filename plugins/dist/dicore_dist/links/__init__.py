"""How processes reach each other: HTTP and files, Ray, and what is sent."""
