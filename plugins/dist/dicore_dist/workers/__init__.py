"""The processes of a training: collectors, learners, evaluators."""
