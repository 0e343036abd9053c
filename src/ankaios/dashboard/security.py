"""Decides which HTTP requests the dashboard answers. Pure: headers in, a reason to refuse out.

A web page of another site must not be able to read or change anything through the browser of a user: the Host header
must name this dashboard (against DNS rebinding), requests that change something must come from its own pages (Origin,
Sec-Fetch-Site) and carry a token that only they can read. Other addresses than loopback need an access token or mTLS.
"""

import hmac
import socket
from collections.abc import Mapping
from ipaddress import ip_address

from msgspec import Struct

COOKIE = "ankaios_access"
CHANGE_HEADER = "x-ankaios-change-token"
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
RESPONSE_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class AccessRules(Struct, frozen=True):
    """`access_token` is empty on loopback and with mTLS; `hosts` are further names of this machine."""

    port: int
    access_token: str = ""
    change_token: str = ""
    allow_changes: bool = False
    hosts: tuple[str, ...] = ()


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def own_names() -> tuple[str, ...]:
    name = socket.gethostname()
    return (name, name.partition(".")[0])


def host_fault(host: str, rules: AccessRules) -> str | None:
    """The owner of a name can rebind it to this address; addresses and the configured names cannot be rebound."""
    name, _, port = host.rpartition(":") if not host.endswith("]") and ":" in host else (host, "", "")
    bare = name.removeprefix("[").removesuffix("]").lower()
    if port and port != str(rules.port):
        return "the port of the Host header is not that of this dashboard"
    if bare == "localhost" or bare in {known.lower() for known in rules.hosts}:
        return None
    try:
        ip_address(bare)
    except ValueError:
        return "the Host header does not name this dashboard"
    return None


def origin_fault(headers: Mapping[str, str]) -> str | None:
    """Browsers send Origin with every request that changes something, with the site it comes from."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return "the request comes from another site"
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2] != headers.get("host", ""):
        return "the request comes from another origin"
    return None


def access_fault(given: str, rules: AccessRules) -> str | None:
    if rules.access_token and not same_text(given, rules.access_token):
        return "the access token is missing or wrong; open the address that 'ank dashboard' printed"
    return None


def change_fault(headers: Mapping[str, str], rules: AccessRules) -> str | None:
    if not rules.allow_changes:
        return "changes are not allowed; start the dashboard with --allow-changes"
    if "origin" not in headers:
        return "the request has no Origin"
    if not same_text(headers.get(CHANGE_HEADER, ""), rules.change_token):
        return "the token for changes is missing or wrong; reload the page"
    return None


def same_text(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())
