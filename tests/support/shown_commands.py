"""The commands that README, docs and the pages of the examples show, and the tests that run them.

A command is a line that begins with `$ ` in a block marked `console`, with the lines that begin with `> ` behind it.
The second word of the mark is the kind of the block, which selects the test that runs it: see `KINDS`. In running text
a command is a text between backquotes that begins with a program.
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").glob("*/README.md")),
]
INSTALLING = ROOT / "docs/installing.md"
REFERENCE = ROOT / "docs/reference/cli.md"  # made from the examples of the commands, in blocks marked `sh`

# Kind of block -> the test file that runs it.
KINDS = {
    "": "test_docs_commands.py",
    "exact": "test_docs_commands.py",  # what it shows as output must be printed
    "meanwhile": "test_docs_commands.py",  # while the command before it runs on a terminal
    **dict.fromkeys(["pip", "uv", "debian", "debian-started", "debian-removed"], "test_packaging.py"),
    **dict.fromkeys(["debian-manifest", "user-unit"], "test_systemd.py"),
}
BLOCK = re.compile(r"^( *)```([^\n]*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
SHELLS = ("sh", "bash", "shell", "zsh", "fish")
# `podman` is missing: in running text it means a call of the agent, not a command of the reader.
PROGRAMS = (
    *(
        "ank",
        "mkdocs",
        "pip",
        "pipx",
        "python3",
        "uv",
        "systemctl",
        "loginctl",
        "journalctl",
        "apt-get",
        "dpkg",
        "sudo",
    ),
    *("git", "openssl", "pytest", "curl"),
)


@dataclass(frozen=True)
class Block:
    page: Path
    language: str
    kind: str
    lines: tuple[str, ...]

    @property
    def commands(self) -> list[str]:
        found: list[str] = []
        for line in self.lines:
            if line.startswith("$ "):
                found.append(line[2:])
            elif line.startswith(">") and found:
                found[-1] += "\n" + line[1:].removeprefix(" ")
        return found

    @property
    def output(self) -> list[str]:
        return [line.strip() for line in self.lines if line.strip() and not line.startswith(("$ ", "> ", ">"))]


def blocks(page: Path) -> list[Block]:
    found = []
    for indent, mark, body in BLOCK.findall(page.read_text()):
        language, _, kind = mark.strip().partition(" ")
        lines = tuple(line.removeprefix(indent) for line in body.splitlines())
        found.append(Block(page, language, kind.strip(), lines))
    return found


def installing(kind: str) -> list[str]:
    """The commands in the blocks of this kind on the page about installing."""
    found = [command for block in blocks(INSTALLING) if block.kind == kind for command in block.commands]
    assert found, kind
    return found


def indented_code(page: Path) -> list[str]:
    """Lines of blocks that are code only because they are indented, which no test runs."""
    text = BLOCK.sub("", page.read_text())
    paragraphs = re.split(r"\n\s*\n", text)
    before, found = "", list[str]()
    for paragraph in paragraphs:
        in_list = re.match(r"\s*([-*]|\d+\.) |!!!", before) is not None
        if paragraph.startswith("    ") and not in_list:
            found += paragraph.splitlines()
        else:
            before = paragraph
    return found


def in_text(page: Path) -> list[str]:
    """Between backquotes: a program with something behind it, or a script of the repository."""
    text = BLOCK.sub("", page.read_text())
    found = []
    for inline in re.findall(r"`([^`\n]+)`", text):
        words = inline.replace("\\|", "|").split()
        is_script = re.fullmatch(r"(scripts|tools|examples|\.venv/bin)/[\w./-]+", words[0]) and not words[0].endswith(
            "/"
        )
        if (words[0] in PROGRAMS and len(words) > 1) or (is_script and (ROOT / words[0]).is_file()):
            found.append(" ".join(words))
    return found
