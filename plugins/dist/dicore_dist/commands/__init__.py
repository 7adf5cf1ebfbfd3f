"""The pipeline `dist`, its commands, and manifests for Kubernetes."""
