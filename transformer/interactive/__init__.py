"""Models in a web page or a notebook: the widgets, and the page that stands alone."""
