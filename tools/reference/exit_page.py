"""The page about exit codes, and about the messages with which server and agent reject a start.

The reasons are collected from the code; only the advice is written here, and a reason without advice is an error.
"""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import ankaios
from ankaios.cli.program import FAILED, READER_GONE, WRONG_USAGE
from ankaios.cli.tree.ank import ANK
from tools.reference.markdown import code, heading, page_of, table

SOURCES = Path(ankaios.__file__).parent
PROGRAMS = {"server": "`ank-server`", "agent": "`ank-agent`", "middleware": "`ank-server`", "common": "both"}
ADVICE = {
    "Config file could not be parsed": "The rest names the file and the key. See [config files](config-files.md).",
    "Failed to load certificate files!": "The rest names the file and the fault, often its mode: keys need `0600`.",
    "Missing certificate files": "Give all three PEM files (`ank certs create` makes them), or `--insecure`.",
    "Could not read the startup config": "The startup manifest is missing or cannot be read.",
    "Invalid tags format in startup manifest": "Tags are a map since `v1`, and were a list in `v0.1`.",
    "Parsing start config failed with error": "The startup manifest is wrong; `ank validate` shows the line.",
    "Could not use the storage": "`--storage` is no valid URL, or its target cannot be used; the rest is the reason.",
    "server error": "The startup manifest was rejected, or the address cannot be used; the rest is the reason.",
    "Agent name is invalid": "Give one with `--name`, of the characters of [names](manifest.md#names).",
    "Wrong server address format": "The URL of the server begins with `http://` or `https://`.",
    "Run folder creation failed. Cannot continue without run folder": "Create it, or name another with `--run-folder`. "
    "A folder that other users can replace is rejected; the reason names the part of the path and what to do.",
    "Ankaios version mismatch": "Agent and server are of different major versions.",
    "Metrics": "The address of `--metrics` cannot be used, or the extra `ankaios[metrics]` is not installed.",
    "No runtime to run workloads with": "None of the `runtimes` in the config file is known.",
}


def page() -> str:
    return page_of(
        "Exit codes",
        "src/ankaios",
        heading(2, "`ank`", "ank"),
        table(
            ("code", "meaning"),
            [
                ("`0`", "Done. Also if a workload that was started failed later: see `ank get workloads`."),
                (code(str(FAILED)), "Failed. The reason is on standard error, after `error:`."),
                (code(str(WRONG_USAGE)), "Wrong usage, or help because arguments are missing."),
                (code(str(READER_GONE)), "The reader of the output has ended, as in `ank get state | head -1`."),
            ],
        ),
        *_commands_that_judge(),
        heading(2, "`ank-server` and `ank-agent`", "server-and-agent"),
        table(
            ("code", "meaning"),
            [
                ("`0`", "Ended by a signal (`SIGTERM`, `SIGINT`), or help or version were printed."),
                ("`1`", "Could not start or continue. The reason is on standard error, see below."),
                ("`2`", "Wrong usage, or an environment variable with an invalid value."),
            ],
        ),
        heading(2, "Why a program did not start", "reasons"),
        "The line on standard error begins with one of these:",
        table(("message", "program", "what to do"), _reasons()),
        heading(2, "Workloads", "workloads"),
        "The exit code of a workload is in its state: 0 is `Succeeded(Ok)`, any other `Failed(ExecFailed)` with "
        "`Exit code: '<code>'` as additional information.",
    )


def _commands_that_judge() -> Iterator[str]:
    """Commands whose help describes their exit code."""
    rows = [
        (f"[`ank {command.name}`](cli.md#ank-{command.name})", sentence.strip() + ".")
        for command in ANK.children
        for sentence in command.details.replace("\n", " ").split(".")
        if "exit code" in sentence
    ]
    if rows:
        yield table(("command", "how it ends"), rows)


def _reasons() -> list[tuple[str, str, str]]:
    found = startup_reasons()
    if unknown := found.keys() ^ ADVICE.keys():
        raise ValueError(f"advice and reasons differ: {', '.join(sorted(unknown))}")
    return [(code(reason), " and ".join(sorted(found[reason])), ADVICE[reason]) for reason in ADVICE]


def startup_reasons() -> dict[str, set[str]]:
    """The first argument of every StartupFailed, and the program that raises it."""
    reasons: dict[str, set[str]] = {}
    for path in sorted(SOURCES.rglob("*.py")):
        layer = path.relative_to(SOURCES).parts[0]
        if layer not in PROGRAMS:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and _is_startup_failed(node) and node.args:
                reasons.setdefault(_text(node.args[0], path), set()).add(PROGRAMS[layer])
    return {reason: {"both"} if "both" in programs else programs for reason, programs in reasons.items() if reason}


def _is_startup_failed(call: ast.Call) -> bool:
    """Made directly, or by a subclass through `super().__init__`."""
    if isinstance(call.func, ast.Name):
        return call.func.id == "StartupFailed"
    return (
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "__init__"
        and bool(call.args)
        and isinstance(call.args[0], ast.Name)
        and call.args[0].id.endswith("_CONTEXT")
    )


def _text(argument: ast.expr, path: Path) -> str:
    if isinstance(argument, ast.Constant):
        return str(argument.value)
    if isinstance(argument, ast.Name):
        module = ".".join(path.relative_to(SOURCES.parent).with_suffix("").parts)
        return str(getattr(importlib.import_module(module), argument.id, ""))
    return ""
