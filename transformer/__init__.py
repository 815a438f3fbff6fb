"""The Transformer of "Attention Is All You Need", one idea a module: what the course explains is what runs."""

__version__ = "0.1.0"
