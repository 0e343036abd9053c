"""Files that describe the project agree with each other: pyproject.toml, uv.lock, workflows, pages for contributors."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.pythons import supported_versions

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCK = tomllib.loads((ROOT / "uv.lock").read_text())
HOSTS = {"pypi.org", "files.pythonhosted.org"}


def plain(requirement: Requirement) -> tuple[str, str]:
    return canonicalize_name(requirement.name), str(requirement.specifier)


def declared() -> set[tuple[str, str]]:
    """Names and versions of all dependencies in pyproject.toml."""
    project, groups = PROJECT["project"], PROJECT["dependency-groups"]
    lists = [project["dependencies"], *project["optional-dependencies"].values(), *groups.values()]
    return {plain(Requirement(text)) for texts in lists for text in texts if isinstance(text, str)}


def locked() -> set[tuple[str, str]]:
    (own,) = [package for package in LOCK["package"] if package["name"] == "ankaios"]
    metadata = own["metadata"]
    entries: list[dict[str, Any]] = [*metadata["requires-dist"]]
    entries += [entry for group in metadata["requires-dev"].values() for entry in group]
    return {plain(Requirement(f"{entry['name']}{entry.get('specifier', '')}")) for entry in entries}


def test_the_lock_is_made_from_the_dependencies_of_the_project() -> None:
    assert locked() == declared(), "run .venv/bin/uv lock"
    assert LOCK["requires-python"] == PROJECT["project"]["requires-python"]


def test_the_lock_names_the_public_package_index_alone() -> None:
    text = (ROOT / "uv.lock").read_text()
    assert set(re.findall(r"\w+://([^/\"]+)", text)) == HOSTS


def test_the_workflow_tests_every_supported_python() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())["jobs"]
    assert jobs["unit"]["strategy"]["matrix"]["python"] == supported_versions()


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_runs_scripts_that_exist(workflow: Path) -> None:
    content = yaml.safe_load(workflow.read_text())
    assert content["permissions"]["contents"] == "read", "jobs that need more permissions declare them"
    runs = [step["run"] for job in content["jobs"].values() for step in job["steps"] if "run" in step]
    scripts = {word for run in runs for word in re.findall(r"(?:scripts|\.ci)/[\w-]+", run)}
    assert [script for script in scripts if not (ROOT / script).is_file()] == []


def test_hooks_before_a_commit_run_tools_of_the_project() -> None:
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    programs = {hook["entry"].split()[0] for hook in repository["hooks"]}
    assert programs == {".venv/bin/ruff", ".venv/bin/mypy", ".venv/bin/lint-imports", "scripts/generate-proto"}


def test_all_addresses_of_the_project_are_of_one_repository() -> None:
    urls = PROJECT["project"]["urls"]
    assert {"Homepage", "Documentation", "Source", "Issues", "Changelog"} == set(urls)
    source = urls["Source"]
    assert urls["Homepage"] == source and urls["Issues"].startswith(source) and urls["Changelog"].startswith(source)
    assert f"repo_url: {source}\n" in (ROOT / "mkdocs.yml").read_text()
    assert source in (ROOT / "docs/releasing.md").read_text()


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md"])
def test_links_of_the_pages_for_contributors_have_targets(name: str) -> None:
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / name).read_text())
    assert [link for link in links if "://" not in link and not (ROOT / link).exists()] == []
    assert links
