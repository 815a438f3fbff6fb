"""The figures of the course, one module for each. They need the packages of the extra ``plots``."""

from importlib.util import find_spec

from transformer.errors import UserError

_missing = [name for name in ("altair", "matplotlib", "pandas", "seaborn") if find_spec(name) is None]
if _missing:
    raise UserError(f"figures need {', '.join(_missing)}: pip install 'transformer-course[plots]'")
