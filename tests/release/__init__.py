"""The scripts that make and check a release."""
