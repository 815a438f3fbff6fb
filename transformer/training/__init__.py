"""Training a model: the loop, its checkpoints, several processes, and the run folder."""
