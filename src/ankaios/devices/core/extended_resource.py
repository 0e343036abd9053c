"""Names of extended resources, and the choice among the devices of a plugin.

Input: names and lists of foreign plugins. Output: `Rejected` with the reason, or the chosen ids.
"""

import re
from collections.abc import Sequence

from ankaios.common.errors import Rejected

_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = "requests."
_LONGEST_PREFIX = 253


def check_resource_name(name: str) -> None:
    """Apply the rules of a kubelet: `requests.` followed by the name must be a label key."""
    domain, slash, rest = name.partition("/")
    if not slash:
        raise Rejected(f"'{name}' is no extended resource: expected <domain>/<name>")
    if "kubernetes.io/" in name or name.startswith(_PREFIX):
        raise Rejected(f"'{name}' is no extended resource: the domain is reserved")
    if len(_PREFIX + domain) > _LONGEST_PREFIX or not _SUBDOMAIN.fullmatch(domain) or not _NAME.fullmatch(rest):
        raise Rejected(f"'{name}' is no extended resource: expected a DNS domain and a name of up to 63 characters")


def pick_ids(free: Sequence[str], preferred: Sequence[str], quantity: int) -> list[str]:
    """Preferred ids that are free, then other free ids in their order; [] if there are not enough."""
    known = set(free)
    candidates = dict.fromkeys(id_ for id_ in preferred if id_ in known) | dict.fromkeys(free)
    return list(candidates)[:quantity] if len(candidates) >= quantity else []
