"""The one exception that a user's mistake ends in."""


class UserError(Exception):
    """Something the user can mend: the message says what is wrong and what to do, in one line.

    The command line prints it as ``error: …`` and exits with 2; nobody has to read a traceback for a misspelt name.
    """
