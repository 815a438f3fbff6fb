"""The exercises: notebooks with blanks, and the tool that makes and grades them (``python -m exercises --help``)."""
