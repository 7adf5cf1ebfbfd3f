"""Environments of several agents: small games with known answers, and those of other packages."""
