"""What is known of plugin packages: their components, versions, and how far they were tried."""
