"""The course's pictures, one module each."""
