"""The coverage gate of the `core/` packages: statements and branches together, as pyproject.toml sets it."""

import json
from pathlib import Path
from typing import Any


def measured_coverage(data: Path) -> tuple[list[str], str | None]:
    """Lines to show, among them every file below the gate, and the reason if the total is below it."""
    from coverage import Coverage  # only the environment for developers has it, not those of other Pythons

    coverage = Coverage(data_file=str(data))
    coverage.load()
    coverage.json_report(outfile=str(data.with_suffix(".json")))
    gate = float(str(coverage.get_option("report:fail_under") or 0))
    return compared_coverage(json.loads(data.with_suffix(".json").read_text()), gate)


def compared_coverage(report: dict[str, Any], gate: float) -> tuple[list[str], str | None]:
    """The same for a report of `coverage json`."""
    total = report["totals"]["percent_covered"]
    lines = [f"coverage of core/ with branches: {total:.2f} %, the gate is {gate:g} %"]
    for name, file in report["files"].items():
        if (percent := file["summary"]["percent_covered"]) < gate:
            missing = [
                *map(str, file["missing_lines"]),
                *(f"{start}->{end}" for start, end in file["missing_branches"]),
            ]
            lines.append(f"  {percent:6.2f} %  {name}: not covered: {' '.join(missing)}")
    return lines, None if total >= gate else f"coverage of core/ is {total:.2f} %, the gate is {gate:g} %"
