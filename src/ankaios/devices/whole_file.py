"""Small files that are whole at any time: the old one or the new one, wherever the process dies.

A loss of power is another matter: waiting for the disk would hold up every start of a workload, and after a power cut
none of them runs any more. What is half written then is noticed by who reads it.
"""

from contextlib import suppress
from pathlib import Path

DRAFT_SUFFIX = ".new"


def write_whole(path: Path, text: str, mode: int) -> None:
    """Raises OSError with nothing changed. A draft that a crash left behind is replaced; it may be read-only."""
    draft = path.with_suffix(DRAFT_SUFFIX)
    try:
        draft.unlink(missing_ok=True)
        draft.write_text(text)
        draft.chmod(mode)
        draft.replace(path)
    except OSError:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def remove_drafts(folder: Path) -> None:
    """Those of a process that died."""
    for draft in folder.glob(f"*{DRAFT_SUFFIX}"):
        with suppress(OSError):
            draft.unlink(missing_ok=True)
