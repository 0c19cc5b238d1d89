"""The name of the operating system user who runs this process."""

import getpass
import os


def user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        return f"uid-{os.getuid()}"
