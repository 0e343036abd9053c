"""`ank validate`: checks manifests as the server and the agents would, without a server."""

from collections import Counter
from collections.abc import Sequence

from ankaios.cli.command_line.arguments import CommandCall
from ankaios.cli.input_file import STANDARD_INPUT, advice, read_input
from ankaios.cli.terminal.output import CliOutput
from ankaios.cli.terminal.table import printable
from ankaios.cli.validation.checks import validate
from ankaios.cli.validation.findings import ERROR, HINT, WARNING, ManifestFinding

STDIN_NAME = "<stdin>"
_STYLE = {ERROR: "bad", WARNING: "busy", HINT: "dim"}


def run(call: CommandCall) -> int:
    texts, unreadable = _read(call.values["files"])
    findings = unreadable + validate(texts, complete=not unreadable)
    if call.values["json"]:
        call.output.json([finding._asdict() for finding in findings])
    else:
        _print(call.output, findings, len(call.values["files"]))
    return 1 if any(finding.severity == ERROR for finding in findings) else 0


def _read(files: Sequence[str]) -> tuple[list[tuple[str, bytes]], list[ManifestFinding]]:
    texts, unreadable = [], []
    for file in dict.fromkeys(files):
        name = STDIN_NAME if file == STANDARD_INPUT else file
        try:
            texts.append((name, read_input(file)))
        except OSError as error:
            reason = "; ".join(filter(None, (error.strerror, advice(error))))
            unreadable.append(ManifestFinding(name, None, ERROR, "", f"the file cannot be read: {reason}"))
    return texts, unreadable


def _print(output: CliOutput, findings: Sequence[ManifestFinding], files: int) -> None:
    for finding in findings:
        place = finding.file if finding.line is None else f"{finding.file}:{finding.line}"
        path = f"{finding.path}: " if finding.path else ""
        severity = output.paint(f"{finding.severity}:", _STYLE[finding.severity])
        output.line(f"{printable(place)}: {severity} {printable(' '.join((path + finding.message).split()))}")
    output.progress(_summary(findings, files))


def _summary(findings: Sequence[ManifestFinding], files: int) -> str:
    where = f"in {_counted(files, 'file')}"
    if not findings:
        return f"All fine {where}."
    numbers = Counter(finding.severity for finding in findings)
    parts = [_counted(numbers[severity], severity) for severity in (ERROR, WARNING, HINT)]
    return f"{', '.join(parts if numbers[HINT] else parts[:2])} {where}."


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
