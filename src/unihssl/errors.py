"""The one exception a user is meant to read: it names the thing that is wrong and the way out."""


class UserError(Exception):
    """Bad input or a run that cannot go on. The command line prints it as one line and exits with 1."""
