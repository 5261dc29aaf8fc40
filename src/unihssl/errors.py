"""The exceptions a user is meant to read."""


class UserError(Exception):
    """Bad input or a run that cannot go on: names what is wrong and the way out. Printed as one line, exit code 1."""


class RunInterruptedError(Exception):
    """The run was asked to stop and has saved where it stands. Printed as one line, exit code 130."""
