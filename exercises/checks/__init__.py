"""One module a notebook: what is right, which inputs show it, and the wrong answers that people really write."""
