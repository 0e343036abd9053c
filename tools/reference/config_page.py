"""The page about config files, flags and environment variables of the three programs.

Which keys a program reads, from which variables and with which defaults, is recorded while it reads its settings.
Flags come from its parser, the samples from packaging/config. Only meanings of keys without a flag are written here.
"""

import argparse
import io
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import msgspec

from ankaios.agent import settings as agent_settings
from ankaios.agent.settings import make_parser
from ankaios.cli import settings as cli_settings
from ankaios.cli.terminal.output import CliOutput
from ankaios.cli.tree.ank import GLOBAL_OPTIONS
from ankaios.common import config
from ankaios.server import settings as server_settings
from ankaios.server.mutating_hooks import MutatingHook
from tools.reference.markdown import code, fence, heading, page_of, sentence, table

SAMPLES = Path(__file__).resolve().parents[2] / "packaging/config"
_NOTE = re.compile(r"\s*\[(?:default|env): ([^\]]*)\]")

MEANINGS = {
    "version": "Version of this format, always there.",
    "mutating_hooks": "Programs that see every update of workloads before it is made, see [below](#mutating-hooks).",
    "tags": "Tags of this agent, a table of strings.",
    "runtimes": "Runtimes this agent offers. By default all that are there.",
    "offline_start_after": "With a state folder: seconds without a server after which stored workloads are started.",
    "podman_socket": "Socket of the podman service that runs the containers. By default podman runs them itself.",
    **{
        f"{prefix}{item}_pem_content": "The text itself instead of a file."
        for prefix in ("", "storage_")
        for item in ("ca", "crt", "key", "crl")
    },
}
HOOK_MEANINGS = {
    "name": "Name of the executable.",
    "prio": "Hooks with lower numbers come first, 0 to 255.",
    "path": "Folder of the executable.",
    "time_limit": "Seconds after which the hook has failed and the change is refused.",
}


class Key(msgspec.Struct, frozen=True):
    name: str
    default: str = ""
    env: str = ""


def page() -> str:
    return page_of(
        "Config files, flags and environment",
        "the settings of the programs and packaging/config",
        "A flag overrides an environment variable, which overrides the config file, which overrides the default. "
        "Config files are TOML and begin with `version = 'v1'`; unknown keys are ignored. All programs have `--help` "
        "and `--version`.",
        *_program("ank-server", [server_settings.DEFAULT_CONFIG_FILE], _flags(server_settings._parser), _server_keys()),
        *_hooks(),
        *_program("ank-agent", [Path(agent_settings.DEFAULT_CONFIG_FILE)], _flags(make_parser), _agent_keys()),
        *_program(
            "ank",
            [Path("~/.config/ankaios/ank.conf"), Path(cli_settings.SYSTEM_CONFIG_FILE)],
            _cli_flags(),
            _cli_keys(),
        ),
        "Keys of `ank` may also be in the table `[default]`.",
        heading(2, "All programs", "all"),
        table(
            ("environment", "meaning"),
            [
                (
                    "`RUST_LOG`",
                    "How much server and agent log: `error`, `warn`, `info`, `debug`, also by module, as in "
                    "`info,ankaios.server=debug`.",
                ),
                ("`NO_COLOR`", "Set to anything: no colours."),
                ("`TMPDIR`", "Where the default run folder of the agent is made, instead of `/tmp`."),
            ],
        ),
    )


def _program(name: str, files: list[Path], flags: list[tuple[str, str, str]], keys: list[Key]) -> Iterator[str]:
    by_flag = {flag: (spelled, meaning) for flag, spelled, meaning in flags}
    yield heading(2, f"`{name}`", name)
    listed = ", else ".join(f"`{file}`" for file in files)
    config_flag = next(spelled for spelled, _ in by_flag.values() if "-x" in spelled)
    yield f"Reads {listed}, or the file given by `{config_flag}`."
    rows = []
    for key in keys:
        spelled, meaning = by_flag.pop(key.name, ("", ""))
        rows.append((code(key.name), code(spelled), code(key.env), code(key.default), meaning or MEANINGS[key.name]))
    rows += [("", code(spelled), "", "", meaning) for spelled, meaning in by_flag.values()]
    yield table(("key", "flag", "environment", "default", "meaning"), rows)
    yield fence("toml", (SAMPLES / f"{name}.conf").read_text(encoding="utf-8"))


def _hooks() -> Iterator[str]:
    yield heading(3, "Mutating hooks", "mutating-hooks")
    yield (
        "Each `[[mutating_hooks]]` of the server is a program. It gets the change on its standard input as an encoded "
        "[UpdateWorkload](wire.md#grpc-UpdateWorkload) and answers with the one to use on its standard output; an exit "
        "code other than 0 refuses the change. [Mutating hooks](../tutorials/mutating-hooks.md) shows two of them."
    )
    rows = [
        (code(field.name), code("" if field.required else str(field.default)), HOOK_MEANINGS[field.name])
        for field in msgspec.structs.fields(MutatingHook)
    ]
    yield table(("key", "default", "meaning"), rows)


# --- flags ------------------------------------------------------------------------------------------------------------


def _flags(make: Callable[[], argparse.ArgumentParser]) -> list[tuple[str, str, str]]:
    """Key of the file, how the flag is written, what it means."""
    with patch.dict(os.environ):
        os.environ.pop("TMPDIR", None)
        parser = make()
    hidden = (argparse.SUPPRESS, None)
    shown = [one for one in parser._actions if one.help not in hidden and one.dest not in ("help", "version")]
    return [(_key_of(action), _spelled(action), sentence(_NOTE.sub("", str(action.help)))) for action in shown]


def _key_of(action: argparse.Action) -> str:
    return {"tag": "tags"}.get(action.dest, action.dest)


def _spelled(action: argparse.Action) -> str:
    value = f" <{action.metavar}>" if isinstance(action.metavar, str) else ""
    return ", ".join(action.option_strings) + value


def _cli_flags() -> list[tuple[str, str, str]]:
    flags = []
    for option in GLOBAL_OPTIONS:
        if option.name == "version":
            continue
        flags.append((option.name, option.spelling, sentence(option.summary)))
    return flags


# --- keys -------------------------------------------------------------------------------------------------------------


def _server_keys() -> list[Key]:
    return _keys_read(lambda file: server_settings.read_server_settings(["-x", file]), server_settings)


def _agent_keys() -> list[Key]:
    read = lambda file: agent_settings.read_agent_settings(["-x", file, "--name", "a"])  # noqa: E731
    return _keys_read(read, agent_settings)


def _cli_keys() -> list[Key]:
    quiet = CliOutput(io.StringIO(), io.StringIO(), environ={})
    read = lambda file: cli_settings.load_settings({"ank_config": file}, quiet, environ={})  # noqa: E731
    return _keys_read(read, cli_settings)


class _Watched(dict[str, Any]):
    """A config file that records which keys are read."""

    def __init__(self) -> None:
        super().__init__()
        self.read_keys: dict[str, Key] = {}

    def __contains__(self, key: object) -> bool:
        self.read_keys.setdefault(str(key), Key(str(key)))
        return False

    def get(self, key: str, default: Any = None) -> Any:
        self.read_keys.setdefault(key, Key(key))
        return default


def _keys_read(read: Callable[[str], object], *modules: ModuleType) -> list[Key]:
    watched = _Watched()
    watched.read_keys["version"] = Key("version", config.CONFIG_VERSION)

    def choose(flag: Any, env: str | None, file: Any, key: str, default: Any, **more: Any) -> Any:
        watched.read_keys[key] = Key(key, _default(default), env or "")
        return config.choose(flag, None, file, key, default)

    def pem(flags: Mapping[str, Any], prefix: str, file: Any, key_prefix: str = "", **more: Any) -> config.GivenPem:
        found = config.load_pem_material(flags, prefix, file, key_prefix=key_prefix, **{**more, "environ": {}})
        for name in (f"{key_prefix}{item}_pem" for item in more.get("items", ("ca", "crt", "key"))):
            watched.read_keys[name] = Key(name, env=f"{prefix}_{name.upper()}")
        return found

    replaced: dict[str, Any] = {
        "choose": choose,
        "load_pem_material": pem,
        "load_config_file": lambda *_, **__: watched,
    }
    with ExitStack() as patches, patch.dict(os.environ), tempfile.NamedTemporaryFile() as file:
        os.environ.pop("TMPDIR", None)
        for module in modules:
            known = {name: value for name, value in replaced.items() if hasattr(module, name)}
            patches.enter_context(patch.multiple(module, **known))
        read(file.name)
    return list(watched.read_keys.values())


def _default(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value in (None, "", {}, []) else str(value)
