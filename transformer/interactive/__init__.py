"""Interactive views of a model: widgets for notebooks, and a single HTML file with the model in it."""

from transformer.interactive.page import translator_page
from transformer.interactive.widgets import live_translator, widget

__all__ = ["live_translator", "translator_page", "widget"]
