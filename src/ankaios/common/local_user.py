"""The name of the user that runs this process, for the history of the server."""

import os
import pwd


def local_user_name() -> str:
    """The number of the user if it has no name."""
    user = os.getuid()
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
