"""The flags of `ank-agent`.

Comes in: the words of the command line. Goes out: what was given, by key. Flags as units and scripts write them, with
their values in words of their own, are read here and now; for everything else, and to say what is wrong, `argparse` is
loaded, which takes a twentieth of a start. Both know the same table.
"""

from __future__ import annotations

import os

from ankaios import __version__
from ankaios.common.dataclass import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    Given = Mapping[str, str | bool | list[str] | None]

CONFIG_FILE = "/etc/ankaios/ank-agent.conf"
DEFAULT_SERVER_URL = "https://127.0.0.1:25551"


@dataclass(frozen=True, slots=True)
class Flag:
    """`value` is what stands for its value in the help; a flag without is a switch."""

    names: tuple[str, ...]
    value: str
    help: str
    may_be_repeated: bool = False

    @property
    def key(self) -> str:
        return self.names[-1].lstrip("-").replace("-", "_")


def usual_run_folder() -> str:
    return f"{os.environ.get('TMPDIR') or '/tmp'}/ankaios"


def all_flags() -> tuple[Flag, ...]:
    return (
        Flag(("-x", "--agent-config"), "PATH", f"config file [default: {CONFIG_FILE}]"),
        Flag(("-n", "--name"), "NAME", "the name under which workloads are assigned to this agent"),
        Flag(("-s", "--server-url"), "URL", f"address of the server [default: {DEFAULT_SERVER_URL}]"),
        Flag(("-r", "--run-folder"), "DIR", f"where run-time files live [default: {usual_run_folder()}]"),
        Flag(("-k", "--insecure"), "", "no TLS; do not use it in production [env: ANKAGENT_INSECURE]"),
        Flag(("-t", "--tag"), "KEY=VALUE", "tag of this agent, may be given often", may_be_repeated=True),
        Flag(("--ca_pem",), "PATH", "PEM file with the certificate of the authority [env: ANKAGENT_CA_PEM]"),
        Flag(("--crt_pem",), "PATH", "PEM file with the own certificate [env: ANKAGENT_CRT_PEM]"),
        Flag(("--key_pem",), "PATH", "PEM file with the own private key [env: ANKAGENT_KEY_PEM]"),
        Flag(("--kubelet-dir",), "DIR", "offer devices to the kubelet of this folder, such as /var/lib/kubelet"),
    )


def read_flags(words: Sequence[str]) -> Given:
    """Ends the process with code 2 if they make no sense, and with 0 if only help or the version was wanted."""
    given = read_plain_flags(words)
    return vars(make_parser().parse_args(words)) if given is None else given


def read_plain_flags(words: Sequence[str]) -> Given | None:
    """None: they are not written plainly."""
    flags = all_flags()
    by_name = {name: flag for flag in flags for name in flag.names}
    given: dict[str, str | bool | list[str] | None] = {flag.key: None if flag.value else False for flag in flags}
    rest = iter(words)
    for word in rest:
        flag = by_name.get(word)
        value = next(rest, None) if flag is not None and flag.value else word
        if flag is None or value is None or (flag.value and value.startswith("-")):
            return None
        if flag.may_be_repeated:
            if "=" not in value:
                return None
            before = given[flag.key]
            given[flag.key] = [*before, value] if isinstance(before, list) else [value]
        else:
            given[flag.key] = value if flag.value else True
    return given


def make_parser() -> argparse.ArgumentParser:
    import argparse

    def pair(text: str) -> str:
        if "=" not in text:
            raise argparse.ArgumentTypeError(f"invalid value '{text}': no '=' found, expected KEY=VALUE")
        return text

    parser = argparse.ArgumentParser(
        prog="ank-agent",
        description="The Ankaios agent: runs the workloads that the server assigns to this node.",
        allow_abbrev=False,
    )
    for flag in all_flags():
        if not flag.value:
            parser.add_argument(*flag.names, action="store_true", help=flag.help)
        elif flag.may_be_repeated:
            parser.add_argument(*flag.names, metavar=flag.value, type=pair, action="append", help=flag.help)
        else:
            parser.add_argument(*flag.names, metavar=flag.value, help=flag.help)
    parser.add_argument("-V", "--version", action="version", version=f"ank-agent {__version__}")
    return parser
