"""The version rule between programs: both must be semantic versions of the same major number.

[impl->swdd~common-version-checking~1]
"""

from ankaios import __version__
from ankaios.common.errors import Rejected

PROTOCOL_VERSION = __version__
_MAJOR = PROTOCOL_VERSION.partition(".")[0]
_NUMBER = r"(?:0|[1-9][0-9]*)"
_PRE = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_SEMVER = rf"({_NUMBER})\.{_NUMBER}\.{_NUMBER}(?:-{_PRE}(?:\.{_PRE})*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"


def check_version_compatibility(theirs: str) -> None:
    """Reject a peer whose protocol version is not a semantic version or has a different major number."""
    import re

    match = re.fullmatch(_SEMVER, theirs)
    if match is None or match[1] != _MAJOR:
        raise Rejected(f"Unsupported protocol version '{theirs}'. Currently supported '{_MAJOR}'")
