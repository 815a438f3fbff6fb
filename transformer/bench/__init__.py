"""Measures speed and memory: of the package compared with other implementations, and of the training of recipes."""
