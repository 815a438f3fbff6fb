"""Measures speed and memory: the package beside other implementations of the same work, and the training of recipes."""
