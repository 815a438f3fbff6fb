"""The figures of the course, one module for each. They need the packages of the extra ``plots``."""

from transformer.errors import require_extra

require_extra("plots", "altair", "matplotlib", "pandas", "seaborn")
