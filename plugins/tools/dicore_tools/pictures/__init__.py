"""Pictures of components: the middleware of a pipeline, a frame of an environment."""
