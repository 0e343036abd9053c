"""The argument parser of server and agent.

Input: a function that adds the flags. Output: a parser with the help texts of argparse.
"""

import argparse
from collections.abc import Callable
from functools import partial

_SOME_WIDTH = 80


def flag_parser(
    prog: str, description: str, add_flags: Callable[[argparse.ArgumentParser], None]
) -> argparse.ArgumentParser:
    """Return the parser. Flags cannot be abbreviated.

    To check a flag, argparse makes a formatter. Without a width, a formatter loads `shutil` and with it all compression
    modules of Python: 2 ms and 0.4 MiB. Therefore the formatter has a width until all flags are added.
    """
    parser = argparse.ArgumentParser(
        prog=prog,
        description=description,
        allow_abbrev=False,
        formatter_class=partial(argparse.HelpFormatter, width=_SOME_WIDTH),
    )
    add_flags(parser)
    parser.formatter_class = argparse.HelpFormatter
    return parser
