"""The pipeline `parallel`: a coordinator in the process of the learner, collectors on Ray."""
