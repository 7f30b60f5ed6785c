"""Who may see the page, and what a browser may do with it.

The page is for this machine. A name that resolves to it (DNS rebinding) must not open it to a web site, so the Host
header is checked; elsewhere than on the loopback interface a token is asked for as well.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from ..errors import UsageError

COOKIE = "pads_dashboard"
TOKEN_CHARS = 16

_NOTHING = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
PAGE_POLICY = f"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; {_NOTHING}"
"""Everything comes from here, nothing stands inline."""
TIMELINE_POLICY = f"sandbox; default-src 'none'; style-src 'unsafe-inline'; {_NOTHING}"
"""A run's page has its style inline; it runs nothing, fetches nothing, and is kept apart from this origin."""

_HEADERS = {
    "Content-Security-Policy": PAGE_POLICY,
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Server": "pads",
    "X-Frame-Options": "DENY",
}


@dataclass(frozen=True, slots=True)
class Access:
    """Where the page is served and to whom. ``token`` None lets everybody in who can reach it."""

    host: str = "127.0.0.1"
    token: str | None = None

    def __post_init__(self) -> None:
        if self.token is not None and len(self.token) < TOKEN_CHARS:
            raise UsageError(f"the dashboard's token must have {TOKEN_CHARS} characters or more")
        if self.token is not None and not (self.token.isascii() and self.token.isprintable() and " " not in self.token):
            raise UsageError("the dashboard's token must be of plain letters, digits and marks, without spaces")
        if self.token is None and not self.is_local:
            raise UsageError(
                f"the dashboard is shown to this machine only; to serve it on '{self.host}' give a token as well: "
                "--token or PADS_DASHBOARD_TOKEN"
            )

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host == "localhost" or _is_loopback(self.host)

    def allows_host(self, header: str | None) -> bool:
        """Whether a Host header names us: an address cannot be rebound, a name only if it is ours."""
        name = host_name(header)
        if name is None:
            return False
        if name == "localhost" or name == self.host.lower() or _is_loopback(name):
            return True
        return not self.is_local and (_is_address(name) or name == socket.gethostname().lower())

    def allows_token(self, request: web.Request) -> bool:
        """Whether the request carries the token, if one is asked for."""
        if self.token is None:
            return True
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        offered = [request.cookies.get(COOKIE, ""), given.strip() if scheme.lower() == "bearer" else ""]
        return any(self.is_token(token) for token in offered)

    def is_token(self, offered: str) -> bool:
        """Compares in constant time."""
        return self.token is not None and hmac.compare_digest(offered.encode(errors="replace"), self.token.encode())


def host_name(header: str | None) -> str | None:
    """The name or address in a Host header (RFC 9110, 7.2) in lower case, without its port; None if malformed."""
    if not header or len(header) > 255 or any(c in header for c in "@/\\ \t,"):
        return None
    if header.startswith("["):
        address, bracket, port = header[1:].partition("]")
        port = port.removeprefix(":") if port.startswith(":") else port
        name = address if bracket else ""
    else:
        name, _, port = header.partition(":")
    return name.lower() if name and (not port or port.isdigit()) else None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(name: str) -> bool:
    return _is_address(name) and ipaddress.ip_address(name).is_loopback


def guard(access: Access, report: Callable[[str], None]) -> Middleware:
    """The middleware through which every request goes."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await _answer(access, report, request, handler)
        if not response.prepared:
            for name, value in _HEADERS.items():
                response.headers.setdefault(name, value)
        return response

    return check


async def _answer(
    access: Access, report: Callable[[str], None], request: web.Request, handler: Handler
) -> web.StreamResponse:
    if not access.allows_host(request.headers.get("Host")):
        return _plain(421, "this page is not served under that name")
    if not access.allows_token(request):
        offered = request.query.get("token", "")
        if request.path == "/" and access.is_token(offered):
            welcome = _plain(303, "welcome")
            welcome.headers["Location"] = "/"
            welcome.set_cookie(COOKIE, offered, httponly=True, samesite="Strict", path="/")
            return welcome
        return _plain(401, "a token is needed: open the address with ?token=...")
    try:
        return await handler(request)
    except web.HTTPException as exc:
        return _plain(exc.status, exc.text or exc.reason)
    except (ConnectionError, TimeoutError):
        raise
    except Exception as exc:
        report(f"{request.path}: {type(exc).__name__}: {exc}")
        return _plain(500, "this could not be shown; the terminal of the dashboard says why")


def _plain(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=f"{text}\n", content_type="text/plain", charset="utf-8")
