"""What mkdocs does beyond its settings when it builds the site from docs/: two hooks, which it calls by their names.

All decisions are added to the navigation. And the copy button of a terminal session copies the
commands, without prompts and output: they are written to the attribute that the button of the theme reads.
"""

import re
from html import escape, unescape
from pathlib import Path
from typing import Any

_SESSION = re.compile(
    r'<div class="(?:language-console )?highlight">(?=<pre><span></span><code>)(.*?)</div>', re.DOTALL
)
_TAG = re.compile(r"<[^>]+>")
_PROMPT = '<span class="gp">$ </span>'


def on_config(config: Any) -> Any:
    decisions = sorted(Path(config.docs_dir).glob("adr/*.md"))
    config.nav.append({"Decisions": [f"adr/{page.name}" for page in decisions]})
    return config


def on_page_content(html: str, **_: Any) -> str:
    return _SESSION.sub(lambda found: _with_commands(found[0], found[1]), html)


def _with_commands(block: str, content: str) -> str:
    if _PROMPT not in content:
        return block
    copied = escape(commands_of(unescape(_TAG.sub("", content))))
    return block.replace("<div ", f'<div data-copy="{copied}" ', 1)


def commands_of(session: str) -> str:
    """A line that begins with `>` continues the command before it; what begins with neither prompt is output."""
    typed = []
    for line in session.splitlines():
        if line.startswith("$ "):
            typed.append(line.removeprefix("$ "))
        elif line.startswith(">") and typed:
            typed.append(line.removeprefix(">").removeprefix(" "))
    return "\n".join(typed)
