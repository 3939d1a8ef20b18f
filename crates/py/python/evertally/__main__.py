"""The program ``evertally``, also as ``python -m evertally``."""

import os
import signal
import sys

from ._evertally import _run_program


def _open_standard_streams() -> None:
    """Opens the null device for each closed standard stream. Otherwise the next file to be opened, such as a ledger,
    would become standard output, and messages would be written into it."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # It gets the lowest free number, which is this one. The program recognizes a closed standard output by a
            # null device that it can also read.
            os.open(os.devnull, os.O_RDWR)


def main() -> int:
    """Runs the program with the arguments of the command line; the exit status."""
    _open_standard_streams()
    # Python's handler would only note Ctrl-C until the program returns.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _run_program(["evertally", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
