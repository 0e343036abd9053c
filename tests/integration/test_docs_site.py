"""The site builds from docs/ without a warning, and its pages are rendered as intended.

Needs: mkdocs with its theme, as scripts/install installs them.
"""

import importlib.util
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from html import unescape
from pathlib import Path

import pytest

from tests.support.shown_commands import PAGES, blocks
from tools import architecture_picture

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
WALKS = (architecture_picture.APPLY, architecture_picture.REQUEST, architecture_picture.CAMERA)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")

needs_mkdocs = pytest.mark.skipif(
    importlib.util.find_spec("material") is None, reason="building the site needs the package mkdocs-material"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(ROOT / "mkdocs.yml"), "-d", str(target)]
    environ = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(build, env=environ, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return target


@needs_mkdocs
def test_every_page_is_on_the_site(site: Path) -> None:
    pages = {path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("*.md")}
    assert pages <= {path.relative_to(site) for path in site.rglob("*.html")}


@needs_mkdocs
def test_every_block_of_code_is_rendered_as_code(site: Path) -> None:
    broken = [path.name for path in site.rglob("*.html") if "```" in path.read_text()]
    assert not broken


@needs_mkdocs
@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(DOCS)))
def test_the_copy_button_copies_only_commands(site: Path, page: Path) -> None:
    shown = ["\n".join(block.commands) for block in blocks(page) if block.language == "console"]
    html = (site / page.relative_to(DOCS).with_suffix(".html")).read_text()
    assert [unescape(copied) for copied in re.findall(r'data-copy="([^"]*)"', html)] == shown


@needs_mkdocs
def test_the_site_loads_no_external_fonts_or_scripts(site: Path) -> None:
    references = re.compile(r'<(?:script|link|img)[^>]+(?:src|href)="(https?://[^"]+)"')
    for path in site.rglob("*.html"):
        assert references.findall(path.read_text()) == [], path.name


def test_links_of_the_readme_have_existing_targets() -> None:
    links = [link for link in LINK.findall((ROOT / "README.md").read_text()) if not link.startswith("http")]
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_readme_starts_with_three_sentences_a_picture_and_two_commands() -> None:
    _, opening, picture, commands, *_ = (ROOT / "README.md").read_text().split("\n\n")
    assert len(re.findall(r"[.:] ?(?=[A-Z]|$)", re.sub(r"\([^)]*\)", "", opening.replace("\n", " ")))) == 3
    assert "docs/pictures/demo.svg" in picture
    assert [line.split()[:2] for line in commands.splitlines()[1:-1]] == [["$", "scripts/demo"], ["$", "scripts/test"]]


def test_the_pictures_of_the_architecture_are_current() -> None:
    for name, svg in architecture_picture.pictures().items():
        assert (DOCS / f"pictures/{name}.svg").read_text() == svg, f"{name}: run tools/architecture_picture.py"


def test_every_module_on_a_picture_exists() -> None:
    sources = ROOT / "src/ankaios"
    words = {
        step.title for steps in WALKS for step in steps if re.fullmatch(r"[a-z/]*[a-z]_[a-z]+|discovery/.*", step.title)
    }
    assert len(words) > 10
    code = "".join(path.read_text() for path in sources.rglob("*.py"))
    missing = [word for word in words if not list(sources.rglob(f"{word}.py")) and f"def {word}" not in code]
    assert missing == []


@pytest.mark.parametrize("picture", sorted((DOCS / "pictures").glob("*.svg")), ids=lambda picture: picture.name)
def test_a_picture_is_self_contained_and_made_by_a_script(picture: Path) -> None:
    """No external fonts or images, and no paths of the machine on which it was made."""
    text = picture.read_text()
    assert ET.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
    assert not re.search(r"@font-face|<image|xlink:href|@import", text)
    assert str(ROOT) not in text
    scripts = "".join(path.read_text() for path in (ROOT / "tools").glob("*_picture*.py"))
    scene = re.sub(r"-(80|120)$", "", picture.stem)  # drawn in two widths
    assert f'"{scene}"' in scripts
    assert any(f"pictures/{picture.name})" in page.read_text() for page in PAGES), "no page shows it"


def test_the_flows_of_the_architecture_name_existing_functions_and_stay_short() -> None:
    """A flow of `apply` has at most 43 functions in different files, that of a camera at most 39."""
    code = "\n".join(path.read_text() for path in (ROOT / "src/ankaios").rglob("*.py"))
    text = (DOCS / "architecture.md").read_text()
    for title, most in (("Flow of `ank apply", 43), ("Flow of a camera", 39)):
        section = text.split(f"## {title}")[1].split("\n## ")[0]
        names = [name for row in section.splitlines() if "→" in row for name in re.findall(r"`([\w.]+)`", row)]
        assert 20 < len(names) <= most
        assert [name for name in names if not re.search(rf"def {name.split('.')[-1]}\b", code)] == []
        owners = {name.split(".")[0] for name in names if "." in name and name[0].isupper()}
        assert [owner for owner in owners if f"class {owner}" not in code] == []
