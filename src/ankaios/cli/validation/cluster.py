"""All entries of all files together, as one server would hold them, and what is wrong with them as entries.

In come sources; out goes a `Cluster` of the entries that can be judged further, in the form in which the server keeps
them. Whoever has a name twice, a type wrong or a number too large is reported and left out.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct, field

from ankaios.cli.suggestions import nearest
from ankaios.cli.validation.findings import WARNING, Complaint, Form, Path, Report, Source, path_of
from ankaios.common.errors import Rejected
from ankaios.common.manifest import change_of
from ankaios.common.model.state import API_VERSION, SECTIONS, STATE
from ankaios.common.model.values import Malformed
from ankaios.server.core.conventions import check_config_item, check_config_references, check_device_configuration_name

_NO_AGENT = "names no agent: 'ank apply' needs '--agent' for it, and as part of a startup manifest it is refused"


class Entry(Struct, frozen=True):
    """`given` is what the file says, `form` what the server would keep."""

    source: Source
    path: Path
    given: Any
    form: Any


def _by_section() -> dict[str, dict[str, Any]]:
    return {section: {} for section in SECTIONS}


class Cluster(Struct):
    """Entries by section and name. `names` also has those that are not good enough to be judged."""

    entries: dict[str, dict[str, Entry]] = field(default_factory=_by_section)
    names: dict[str, dict[str, Source]] = field(default_factory=_by_section)
    complete: bool = True
    """Every file could be read, so what is not here is in none of them."""
    guesses_left: int = 100
    """Looking for a near name is slow, and nobody needs more of them."""

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
        """As the server would keep it."""
        sections = self.entries.items()
        return {"apiVersion": API_VERSION} | {
            section: {name: entry.form for name, entry in entries.items()} for section, entries in sections
        }

    def lacks(self, section: str, name: str) -> bool:
        return self.complete and name not in self.names[section]

    def guess(self, section: str, name: str) -> str:
        """The end of a sentence about a name that is not there."""
        self.guesses_left -= 1
        found = nearest(name, self.names[section]) if self.guesses_left >= 0 else None
        return f", did you mean '{found}'?" if found else ""


def gather(sources: Sequence[Source], report: Report, *, complete: bool) -> Cluster:
    cluster = Cluster(complete=complete and all(isinstance(source.manifest, dict) for source in sources))
    for source in sources:
        for section, name, given in _entries(source):
            first = cluster.names[section].setdefault(name, source)
            path: Path = (section, name)
            if first is not source:
                where = f"{first.name}:{first.line(path)}"
                report.add(source, Complaint(path, f"'{name}' stands in two files, first in {where}"))
            elif _is_sound(source, path) and (entry := _entry(source, path, given, report)) is not None:
                cluster.entries[section][name] = entry
    return cluster


def _entries(source: Source) -> Iterator[tuple[str, str, Any]]:
    if not isinstance(source.manifest, dict):
        return
    for section in SECTIONS:
        entries = source.manifest.get(section)
        for name, given in entries.items() if isinstance(entries, dict) else ():
            yield section, str(name), given


def _is_sound(source: Source, path: Path) -> bool:
    """Neither it nor something around or within it was refused before."""
    return not any(faulty[: len(path)] == path[: len(faulty)] for faulty in source.faulty)


def _entry(source: Source, path: Path, given: Any, report: Report) -> Entry | None:
    section, name = str(path[0]), str(path[1])
    try:
        form = given
        if section == "workloads" and isinstance(given, dict) and "agent" not in given:
            form = {"agent": "", **given}
            if "placement" not in given:  # with it, the server chooses
                report.add(source, Complaint(path, _NO_AGENT, WARNING))
        parsed = SECTIONS[section].read_at(form, f"{section}.{name}")
        _check_conventions(section, name, parsed)
        # What does not fit into a message never reaches the server.
        STATE.from_form(change_of([{section: {name: form}}], need_agent=False).desired_state)
    except Malformed as fault:
        report.add(source, Complaint(path_of(fault.path), fault.reason))
    except Rejected as fault:
        report.add(source, Complaint(path, str(fault).removeprefix(f"{section}.{name}: ")))
    else:
        return Entry(source, path, given, parsed)
    return None


def _check_conventions(section: str, name: str, form: Any) -> None:
    if section == "workloads":
        check_config_references(form.get("configs", {}))
    elif section == "configs":
        check_config_item(name, form)
    else:
        check_device_configuration_name(name)
