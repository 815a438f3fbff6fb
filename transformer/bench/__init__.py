"""Measure speed and memory: of the package, compared with other implementations, and of training recipes."""
