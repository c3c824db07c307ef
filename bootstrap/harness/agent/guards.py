"""A look at an Action before it is done.  `done` holds the (Action, observation) pairs so far."""


def before_run(ep, action, done):
    """A text to answer a command with instead of running it, or None.

    Thin: every command is run.
    """
    return None


def before_submit(ep, action, done):
    """A text to answer a submission with instead of handing in, or None.

    Thin: every submission is handed in.
    """
    return None
