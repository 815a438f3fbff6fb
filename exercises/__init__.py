"""The exercises: notebooks with blanks, and the program that makes and grades them (``python -m exercises --help``)."""
