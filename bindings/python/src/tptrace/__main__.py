"""The command `tptrace`, from the library of this package: `python -m tptrace`, and the script that pip installs."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading

from . import _library


def main() -> int:
    """Runs the command on `sys.argv` and answers its exit status."""
    try:
        command = ctypes.CDLL(_library.path).tp_py_command
    except AttributeError:
        print(f"tptrace: {_library.path} was built without the command", file=sys.stderr)
        return 1
    command.restype = ctypes.c_int
    command.argtypes = [ctypes.c_size_t, ctypes.POINTER(ctypes.c_char_p)]
    arguments = [b"tptrace", *map(os.fsencode, sys.argv[1:])]
    # Python's own handler would wait for the command to end.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.stdout.flush()
    return int(command(len(arguments), (ctypes.c_char_p * len(arguments))(*arguments)))


if __name__ == "__main__":
    sys.exit(main())
