"""How fast the package is, against others that do the same, measured side by side in one run."""
