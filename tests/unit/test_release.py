"""A release has its version, its tag and its section of the changelog in agreement."""

import datetime
from pathlib import Path

import pytest

from tools.release import Project, ReleaseError, as_item, main, section_of, with_release

DAY = datetime.date(2030, 1, 2)
CHANGELOG = "# Changelog\n\nIntroduction.\n\n## 1.0.0, 2029-01-01\n\nThe first.\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "src/ankaios").mkdir(parents=True)
    (tmp_path / "src/ankaios/__init__.py").write_text('"""Package."""\n\n__version__ = "1.0.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    (tmp_path / "changelog.d").mkdir()
    (tmp_path / "changelog.d/README.md").write_text("How to write notes.\n")
    (tmp_path / "changelog.d/one.md").write_text("A new\nthing.\n")
    (tmp_path / "changelog.d/two.md").write_text("- Another one.\n")
    return tmp_path


def test_preparing_moves_the_notes_into_a_section_of_the_new_version(root: Path) -> None:
    project = Project(root)
    project.prepare("1.1.0", DAY)
    assert project.version == "1.1.0"
    assert (root / "CHANGELOG.md").read_text() == (
        "# Changelog\n\nIntroduction.\n\n## 1.1.0, 2030-01-02\n\n- A new thing.\n- Another one.\n\n"
        "## 1.0.0, 2029-01-01\n\nThe first.\n"
    )
    assert [path.name for path in (root / "changelog.d").iterdir()] == ["README.md"]
    project.check("v1.1.0")
    assert project.notes("v1.1.0") == "- A new thing.\n- Another one."


def test_a_section_in_preparation_gets_its_date_and_the_notes() -> None:
    draft = CHANGELOG.replace("1.0.0, 2029-01-01", "1.0.0, in preparation")
    assert section_of(draft, "1.0.0") == ""
    assert section_of(with_release(draft, "1.0.0", DAY, ["More."]), "1.0.0") == "The first.\n\n- More."
    assert section_of(with_release(draft, "1.0.0", DAY, []), "1.0.0") == "The first."


def test_the_first_release_of_an_empty_changelog() -> None:
    assert with_release("# Changelog\n", "0.1.0", DAY, ["All."]) == "# Changelog\n\n## 0.1.0, 2030-01-02\n\n- All.\n"


@pytest.mark.parametrize(
    ("version", "notes", "reason"),
    [("1.0.0", ["x"], "already has a section for 1.0.0"), ("1.1.0", [], "nothing to release")],
)
def test_an_invalid_release_is_rejected(version: str, notes: list[str], reason: str) -> None:
    with pytest.raises(ReleaseError, match=reason):
        with_release(CHANGELOG, version, DAY, notes)


def test_a_rejected_release_changes_nothing(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for version in ("1.1", "v1.1.0", "1.0.0"):
        assert main(["prepare", version], Project(root)) == 1
    assert "error: cannot release: '1.1' is not a version such as 1.2.0" in capsys.readouterr().err
    assert (root / "CHANGELOG.md").read_text() == CHANGELOG
    assert len(Project(root).pending_notes()) == 2


def test_a_tag_must_match_version_notes_and_changelog(root: Path) -> None:
    project = Project(root)
    with pytest.raises(ReleaseError, match=r"the tag is 'v2\.0\.0', but the version of the package is '1\.0\.0'"):
        project.check("v2.0.0")
    with pytest.raises(ReleaseError, match=r"not in CHANGELOG\.md yet: one\.md, two\.md"):
        project.check("v1.0.0")
    for note in project.pending_notes():
        note.unlink()
    project.check("v1.0.0")
    (root / "CHANGELOG.md").write_text("# Changelog\n")
    with pytest.raises(ReleaseError, match="says nothing about v1"):
        project.check("v1.0.0")


def test_long_notes_are_wrapped() -> None:
    lines = as_item("word " * 60).splitlines()
    assert [line[:2] for line in lines] == ["- ", "  ", "  "]
    assert max(map(len, lines)) <= 140
