"""Runs the calling script with the pinned packages that setup.sh installed."""
import os
import sys

ENV = os.environ.get("TPTRACE_CLIENTS_ENV") or os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), ".env")
PYTHON = os.path.join(ENV, "venv", "bin", "python")


def use(what):
    """Becomes the pinned Python; ends the process with code 4 when setup.sh has not run."""
    if not os.path.exists(PYTHON):
        print(f"{what} is not installed: run tests/clients/setup.sh", file=sys.stderr)
        sys.exit(4)
    if os.path.realpath(sys.prefix) != os.path.realpath(os.path.join(ENV, "venv")):
        os.execv(PYTHON, [PYTHON, *sys.argv])
    # These scripts are named after the packages that they open: their folder must not answer for them.
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    sys.path[:] = [p for p in sys.path if os.path.realpath(p or ".") != os.path.realpath(here)]
