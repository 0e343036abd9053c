#!/usr/bin/env python3
"""Prepares and checks a release: scripts/release prepare 1.2.0 | check v1.2.0 | notes v1.2.0

The version is in `src/ankaios/__init__.py`. `prepare` writes it there and moves the notes of `changelog.d/` into a new
section of CHANGELOG.md. `check` fails if a tag does not match these files. `notes` prints the section of a version.
See docs/releasing.md.
"""

import argparse
import datetime
import re
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSION_FORM = re.compile(r"\d+\.\d+\.\d+(rc\d+)?")
ASSIGNMENT = re.compile(r'^__version__ = "([^"]*)"$', re.MULTILINE)
IN_PREPARATION = "in preparation"
WIDTH = 140


class ReleaseError(Exception):
    """The release cannot be made; the message is the reason."""


class Project:
    """The files of a repository that a release reads and changes."""

    def __init__(self, root: Path = ROOT) -> None:
        self._package = root / "src/ankaios/__init__.py"
        self._changelog = root / "CHANGELOG.md"
        self._notes = root / "changelog.d"

    @property
    def version(self) -> str:
        found = ASSIGNMENT.search(self._package.read_text())
        if found is None:
            raise ReleaseError(f"no __version__ in '{self._package}'")
        return found[1]

    def pending_notes(self) -> list[Path]:
        return sorted(path for path in self._notes.glob("*.md") if path.name != "README.md")

    def prepare(self, version: str, day: datetime.date) -> None:
        if not VERSION_FORM.fullmatch(version):
            raise ReleaseError(f"'{version}' is not a version such as 1.2.0 or 1.2.0rc1")
        notes = self.pending_notes()
        texts = [path.read_text() for path in notes]
        self._changelog.write_text(with_release(self._changelog.read_text(), version, day, texts))
        self._package.write_text(ASSIGNMENT.sub(f'__version__ = "{version}"', self._package.read_text()))
        for path in notes:
            path.unlink()

    def check(self, tag: str) -> None:
        if tag != f"v{self.version}":
            raise ReleaseError(f"the tag is '{tag}', but the version of the package is '{self.version}'")
        if pending := self.pending_notes():
            raise ReleaseError(f"notes are not in CHANGELOG.md yet: {', '.join(path.name for path in pending)}")
        if not self.notes(tag):
            raise ReleaseError(f"CHANGELOG.md says nothing about {tag}")

    def notes(self, tag: str) -> str:
        return section_of(self._changelog.read_text(), tag.removeprefix("v"))


def with_release(changelog: str, version: str, day: datetime.date, notes: list[str]) -> str:
    """The changelog with the notes in a section for the version, which is new or was in preparation."""
    items = "\n".join(as_item(text) for text in notes)
    heading = f"## {version}, {day.isoformat()}"
    draft = f"## {version}, {IN_PREPARATION}"
    if draft in changelog:
        changelog = changelog.replace(draft, heading)
        written = section_of(changelog, version)
        return changelog.replace(written, f"{written}\n\n{items}".rstrip())
    if section_of(changelog, version):
        raise ReleaseError(f"CHANGELOG.md already has a section for {version}")
    if not items:
        raise ReleaseError("changelog.d/ has no notes, so there is nothing to release")
    before, separator, after = changelog.partition("\n## ")
    return f"{before.rstrip()}\n\n{heading}\n\n{items}\n{separator}{after}"


def as_item(note: str) -> str:
    """One item of a list; a note may already be one."""
    text = " ".join(note.removeprefix("- ").split())
    return textwrap.fill(text, WIDTH, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)


def section_of(changelog: str, version: str) -> str:
    """The text below the heading of the version; empty if there is none, or if it is still in preparation."""
    heading = re.compile(rf"^## {re.escape(version)}, \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    found = heading.search(changelog)
    return found[1].strip() if found else ""


NEXT_STEPS = """\
Read CHANGELOG.md and edit it, then:
  git commit --all --message "Release {version}"
  git tag --annotate --sign v{version} --message "Release {version}"
  git push --follow-tags"""


def main(arguments: list[str], project: Project | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/release", description="Prepares and checks a release.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("prepare", help="write version and changelog").add_argument("version")
    commands.add_parser("check", help="fail if the tag does not match version and changelog").add_argument("tag")
    commands.add_parser("notes", help="print the section of the changelog for a tag").add_argument("tag")
    given = parser.parse_args(arguments)
    project = project or Project()
    try:
        match given.command:
            case "prepare":
                project.prepare(given.version, datetime.date.today())
                print(NEXT_STEPS.format(version=given.version))
            case "check":
                project.check(given.tag)
            case "notes":
                print(project.notes(given.tag))
    except ReleaseError as error:
        print(f"error: cannot release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
