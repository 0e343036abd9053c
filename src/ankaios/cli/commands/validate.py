"""`ank validate`: what the server would say to manifests, without a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ankaios.cli.arguments import Call, Command, Option, Positional
from ankaios.cli.commands import TOOLS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ankaios.cli.output import Output
    from ankaios.cli.validation.findings import Finding

STDIN_NAME = "<stdin>"

COMMAND = Command(
    "validate",
    "Check manifests without a server",
    group=TOOLS,
    options=(Option("json", "Print the findings as JSON", long="json"),),
    positionals=(Positional("files", "Manifests, or - for standard input", label="FILE", many=True, complete="files"),),
    examples=(
        ("ank validate web.yaml db.yaml", "check two manifests that belong together"),
        ("generate | ank validate --json -", "check a manifest from another program, for another program"),
    ),
    details=(
        "Several files are checked as one, as 'ank apply' sends them. An error is what the server or an agent would "
        "refuse; a warning may be meant so, or depends on what is not in the files. Ends with 1 if there are errors."
    ),
    offline=True,
    run="ankaios.cli.commands.validate:run",
    bare_help=True,
)

_STYLE = {"error": "bad", "warning": "busy"}


def run(call: Call) -> int:
    from ankaios.cli.validation.checks import validate

    texts, unreadable = _read(call.values["files"])
    findings = unreadable + validate(texts, complete=not unreadable)
    if call.values["json"]:
        import json

        call.output.line(json.dumps([finding._asdict() for finding in findings], indent=2, ensure_ascii=False))
    else:
        _show(call.output, findings, len(call.values["files"]))
    return 1 if any(finding.severity == "error" for finding in findings) else 0


def _read(files: Sequence[str]) -> tuple[list[tuple[str, bytes]], list[Finding]]:
    from ankaios.cli.input_file import STANDARD_INPUT, advice, read_file, read_standard_input
    from ankaios.cli.validation.findings import ERROR, Finding

    texts, unreadable = [], []
    for file in dict.fromkeys(files):
        name = STDIN_NAME if file == STANDARD_INPUT else file
        try:
            texts.append((name, read_standard_input() if file == STANDARD_INPUT else read_file(file)))
        except OSError as fault:
            reason = "; ".join(filter(None, (fault.strerror, advice(fault))))
            unreadable.append(Finding(name, None, ERROR, "", f"the file cannot be read: {reason}"))
    return texts, unreadable


def _show(output: Output, findings: Sequence[Finding], files: int) -> None:
    from ankaios.cli.table import harmless

    for finding in findings:
        place = finding.file if finding.line is None else f"{finding.file}:{finding.line}"
        path = f"{finding.path}: " if finding.path else ""
        severity = output.paint(f"{finding.severity}:", _STYLE[finding.severity])
        output.line(f"{harmless(place)}: {severity} {harmless(' '.join((path + finding.message).split()))}")
    output.progress(_summary(findings, files))


def _summary(findings: Sequence[Finding], files: int) -> str:
    where = f"in {_counted(files, 'file')}"
    if not findings:
        return f"All fine {where}."
    errors = sum(finding.severity == "error" for finding in findings)
    return f"{_counted(errors, 'error')}, {_counted(len(findings) - errors, 'warning')} {where}."


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
