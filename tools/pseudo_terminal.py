# SPDX-License-Identifier: Apache-2.0
"""Runs commands on a terminal of their own, for tests of what they show there."""

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import termios
import threading


def surroundings(**changed):
    """The environment of a terminal that can be written over; `changed` are further variables, None for none."""
    variables = os.environ | {"TERM": "xterm", "CI": None, "COLUMNS": None} | changed
    return {name: value for name, value in variables.items() if value is not None}


def run_on_terminal(command, columns=80, **variables):
    """The status of a command, and all that a terminal of so many columns got of it."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    said = bytearray()

    def read():
        with contextlib.suppress(OSError):  # the end of a terminal
            while chunk := os.read(ours, 4096):
                said.extend(chunk)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        status = subprocess.run(command, stdout=theirs, stderr=theirs, env=surroundings(**variables), timeout=60).returncode
    finally:
        os.close(theirs)
        reader.join()
        os.close(ours)
    return status, said.decode()
