"""Who runs this process, as the system knows them."""

import getpass
import os


def user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        return f"uid-{os.getuid()}"
