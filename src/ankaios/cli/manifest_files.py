"""Reads manifest files. Input: file names, or `-` for standard input. Output: one change of the desired state."""

from collections.abc import Sequence
from typing import Any

from ankaios.cli.input_file import STANDARD_INPUT, UnusableFile, advice, read_file, read_standard_input
from ankaios.cli.output import CliOutput
from ankaios.common.errors import Rejected
from ankaios.common.manifest import DEPRECATED_WARNING, ManifestChange, change_of, is_deprecated, load_manifest


def read_change(output: CliOutput, files: Sequence[str], agent: str | None, *, need_agent: bool) -> ManifestChange:
    """The change of all files together. If the first file is `-`, only standard input is read."""
    texts = [(STANDARD_INPUT, _read_stdin())] if files[:1] == [STANDARD_INPUT] else [(f, _read(f)) for f in files]
    manifests = []
    for file, text in texts:
        manifests.append(_load(file, text))
        if is_deprecated(manifests[-1]):
            output.progress(f"Warning: {DEPRECATED_WARNING}")
    return change_of(manifests, agent, need_agent=need_agent)


def _read_stdin() -> bytes:
    try:
        return read_standard_input()
    except OSError as error:
        raise Rejected(f"Standard input cannot be read: {error.strerror}") from error


def _read(file: str) -> bytes:
    try:
        return read_file(file)
    except FileNotFoundError as error:
        raise UnusableFile(f"File '{file}' not found!", advice(error)) from None
    except OSError as error:
        raise UnusableFile(f"File '{file}' cannot be read: {error.strerror}", advice(error)) from error


def _load(file: str, text: bytes) -> dict[str, Any]:
    if file == STANDARD_INPUT:
        return load_manifest(text, "standard input")
    try:
        return load_manifest(text, f"'{file}'")
    except Rejected as error:
        from shlex import quote

        raise UnusableFile(str(error), f"to see where: ank validate {quote(file)}") from error
