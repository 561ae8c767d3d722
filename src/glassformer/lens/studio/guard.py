"""Who may ask, and how much: every request passes here before anything else sees it.

Pages of other sites can make a browser send requests to this machine. So the Host must be the studio's own address
(a foreign name that leads here is refused), an Origin must be the studio's own, and every request carries the token,
which only who saw the address knows. Bodies are counted as they come in, so that nobody can fill the memory.
"""

import hmac
import json
from collections.abc import Iterable
from urllib.parse import parse_qs

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glassformer.lens.studio.http_errors import HTTPError, busy

LARGEST_BODY = 8 << 20  # bytes
ALL_BODIES = 32 << 20  # bytes, of all requests that are being read or worked on
NOTHING = "default-src 'none'; frame-ancestors 'none'"
HEADERS = {
    "content-security-policy": NOTHING,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
ANY = ("0.0.0.0", "::")  # listens on every address of the machine


class Guard:
    def __init__(self, app: ASGIApp, token: str, hosts: Iterable[str], *, anywhere: bool = False) -> None:
        self.app, self.token = app, token.encode()
        self.hosts = frozenset(hosts)  # as a Host header names them, with the port
        self.anywhere = anywhere  # it listens on all addresses: the one that was reached is one of its own
        self.held = 0  # bytes of bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError("the studio speaks HTTP alone")
        mine = 0  # bytes that are counted for this request: what it says it sends, or what came, whichever is more
        came = 0

        async def counted() -> Message:
            nonlocal came
            message = await receive()
            came += len(message.get("body", b""))
            if came > LARGEST_BODY:
                raise too_large(f"more than {came:,} bytes")
            hold(came)
            return message

        def hold(size: int) -> None:
            nonlocal mine
            more = max(size - mine, 0)
            if self.held + more > ALL_BODIES:
                raise busy("too much is being sent at once")
            mine, self.held = mine + more, self.held + more

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                there = {name.lower() for name, _ in message.get("headers", [])}
                own = [(name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in there]
                message = {**message, "headers": [*message.get("headers", []), *own]}
            await send(message)

        try:
            hold(self.check(scope))
        except HTTPError as refused:
            await answer(refused, scope, with_headers)
            return
        try:
            await self.app(scope, counted, with_headers)
        finally:
            self.held -= mine

    def check(self, scope: Scope) -> int:
        """How many bytes it says it sends."""
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        host = self.checked_host(headers.get("host", []), scope)
        for origin in headers.get("origin", []):
            if origin.lower() != f"http://{host}":
                raise HTTPError(403, "the request comes from another site; open the studio's own address")
        if not self.has_token(headers.get("authorization", []), scope["query_string"]):
            raise HTTPError(401, "the token is missing or wrong; open the address that `glassformer studio` printed")
        sizes = [size_in(length) for length in headers.get("content-length", [])]
        if any(size > LARGEST_BODY for size in sizes):
            raise too_large(f"{max(sizes):,} bytes")
        return max(sizes, default=0)

    def checked_host(self, sent: list[str], scope: Scope) -> str:
        host = sent[0].lower() if len(sent) == 1 else ""
        known = set(self.hosts)
        if self.anywhere and scope.get("server"):
            address, port = scope["server"]
            known.add(f"[{address}]:{port}" if ":" in address else f"{address}:{port}")
        if host not in known:
            raise HTTPError(421, "the Host is not the studio's; open the address that `glassformer studio` printed")
        return host

    def has_token(self, authorization: list[str], query: bytes) -> bool:
        sent = [value[7:] for value in authorization if value[:7].lower() == "bearer "]
        try:
            sent += parse_qs(query.decode("latin-1"), max_num_fields=20).get("token", [])
        except ValueError:
            return False  # far too many fields
        return any(hmac.compare_digest(one.encode("utf-8", "replace"), self.token) for one in sent[:2])


def size_in(length: str) -> int:
    if not (length.isascii() and length.isdecimal()) or len(length) > 15:
        raise HTTPError(400, "Content-Length: expected a number of bytes")
    return int(length)


def too_large(came: str) -> HTTPError:
    return HTTPError(413, f"{came} came, at most {LARGEST_BODY:,} are taken; send a smaller picture or text")


async def answer(refused: HTTPError, scope: Scope, send: Send) -> None:
    """A plain sentence for who opened the page, JSON for its requests."""
    plain = not scope["path"].startswith("/api")
    body = f"{refused.why}\n".encode() if plain else json.dumps({"error": refused.why}).encode()
    headers = {
        "content-type": "text/plain; charset=utf-8" if plain else "application/json",
        "content-length": str(len(body)),
        **refused.headers,
    }
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refused.status, "headers": raw})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
