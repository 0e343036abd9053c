"""All entries of all files together, in the form in which the server would store them.

Input: files. Output: a `ManifestSet` with the entries that further checks can use. An entry with a duplicate name, a
wrong type or a number out of range is reported and left out.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct, field

from ankaios.cli.validation.findings import WARNING, Form, ManifestFile, Path, Problem, ValidationReport, path_of
from ankaios.common.errors import Rejected
from ankaios.common.manifest import change_of
from ankaios.common.model.state import API_VERSION, SECTIONS, STATE
from ankaios.common.model.values import Malformed
from ankaios.common.suggestions import suggestion
from ankaios.server.core.conventions import check_config_item, check_config_references, check_device_configuration_name

_NO_AGENT = "has no agent: 'ank apply' needs '--agent' for it, and the server rejects it in a startup manifest"


class Entry(Struct, frozen=True):
    """`given` is the content of the file, `form` what the server would store."""

    file: ManifestFile
    path: Path
    given: Any
    form: Any


def _by_section() -> dict[str, dict[str, Any]]:
    return {section: {} for section in SECTIONS}


class ManifestSet(Struct):
    """Entries by section and name. `names` also contains the entries that were left out."""

    entries: dict[str, dict[str, Entry]] = field(default_factory=_by_section)
    names: dict[str, dict[str, ManifestFile]] = field(default_factory=_by_section)
    complete: bool = True
    """All files could be read, so a name that is missing here is in none of them."""
    suggestions_left: int = 100
    """The number of searches for a similar name is limited, because they are slow."""

    @property
    def workloads(self) -> dict[str, Entry]:
        return self.entries["workloads"]

    @property
    def configs(self) -> dict[str, Entry]:
        return self.entries["configs"]

    @property
    def device_configurations(self) -> dict[str, Entry]:
        return self.entries["deviceConfigurations"]

    def desired_state(self) -> Form:
        sections = self.entries.items()
        return {"apiVersion": API_VERSION} | {
            section: {name: entry.form for name, entry in entries.items()} for section, entries in sections
        }

    def lacks(self, section: str, name: str) -> bool:
        return self.complete and name not in self.names[section]

    def suggestion(self, section: str, name: str) -> str:
        """The end of a message about an unknown name."""
        self.suggestions_left -= 1
        return suggestion(name, self.names[section]) if self.suggestions_left >= 0 else ""


def combine(files: Sequence[ManifestFile], report: ValidationReport, *, complete: bool) -> ManifestSet:
    manifests = ManifestSet(complete=complete and all(isinstance(file.manifest, dict) for file in files))
    for file in files:
        for section, name, given in _entries(file):
            first = manifests.names[section].setdefault(name, file)
            path: Path = (section, name)
            if first is not file:
                where = f"{first.name}:{first.line(path)}"
                report.add(file, Problem(path, f"'{name}' is defined in two files, first in {where}"))
            elif not _is_rejected(file, path) and (entry := _entry(file, path, given, report)) is not None:
                manifests.entries[section][name] = entry
    return manifests


def _entries(file: ManifestFile) -> Iterator[tuple[str, str, Any]]:
    if not isinstance(file.manifest, dict):
        return
    for section in SECTIONS:
        entries = file.manifest.get(section)
        for name, given in entries.items() if isinstance(entries, dict) else ():
            yield section, str(name), given


def _is_rejected(file: ManifestFile, path: Path) -> bool:
    """Whether the entry, something around it, or something in it was rejected before."""
    return any(rejected[: len(path)] == path[: len(rejected)] for rejected in file.rejected)


def _entry(file: ManifestFile, path: Path, given: Any, report: ValidationReport) -> Entry | None:
    section, name = str(path[0]), str(path[1])
    try:
        form = given
        if section == "workloads" and isinstance(given, dict) and "agent" not in given:
            form = {"agent": "", **given}
            if "placement" not in given:  # with it, the server selects the agent
                report.add(file, Problem(path, _NO_AGENT, WARNING))
        parsed = SECTIONS[section].read_at(form, f"{section}.{name}")
        _check_conventions(section, name, parsed)
        # Values that do not fit into a message cannot be sent to the server.
        STATE.from_form(change_of([{section: {name: form}}], need_agent=False).desired_state)
    except Malformed as error:
        report.add(file, Problem(path_of(error.path), error.reason))
    except Rejected as error:
        report.add(file, Problem(path, str(error)))
    else:
        return Entry(file, path, given, parsed)
    return None


def _check_conventions(section: str, name: str, form: Any) -> None:
    if section == "workloads":
        check_config_references(form.get("configs", {}))
    elif section == "configs":
        check_config_item(name, form)
    else:
        check_device_configuration_name(name)
