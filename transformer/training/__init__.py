"""Training: the loop, its checkpoints, data-parallel processes and the run folder."""
