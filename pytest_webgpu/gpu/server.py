"""The server on 127.0.0.1 that a browser's page asks for jobs, and that answers only those who have its token.

The page posts what it has (a greeting, a result) to `exchange` and the answer is the next job: a message of
`job.pack` both ways. `alive` is a request that never ends; that it broke says at once that the page is gone.
"""

from __future__ import annotations

import contextlib
import http.server
import queue
import secrets
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from pytest_webgpu.gpu.job import Bytes
from pytest_webgpu.gpu.wire import pack, unpack

IDLE_SECONDS = 20.0  # an unanswered request is answered "nothing yet" after this: browsers give up after minutes
FILES = {"": ("page.html", "text/html")} | {
    name: (name, "text/javascript") for name in ("page.js", "runtime.js", "commands.js", "timing.js", "wire.js")
}


@dataclass(frozen=True)
class Message:
    data: dict[str, Any]
    blobs: Sequence[Bytes]


@dataclass(frozen=True)
class Gone:
    """The page cannot answer any more."""

    reason: str


@dataclass
class Session:
    """One page's visit: what is to be sent to it and what came from it. Pages of `former` visits are to reload."""

    token: str
    former: frozenset[str] = frozenset()
    outbox: queue.Queue[list[Bytes]] = field(default_factory=queue.Queue)
    inbox: queue.Queue[Message | Gone] = field(default_factory=queue.Queue)
    page: str | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def send(self, data: dict[str, Any], blobs: Sequence[Bytes] = ()) -> None:
        self.outbox.put(pack(data, blobs))

    def gone(self, reason: str) -> None:
        self.inbox.put(Gone(reason))

    def claim(self, page: str) -> bool:
        """True for the first page that comes, and for no other after it."""
        with self.lock:
            if self.page is None and page and page not in self.former:
                self.page = page
            return bool(page) and self.page == page


class Server:
    """Serves one session at a time. Several servers share nothing, so that runs at once do not meet."""

    def __init__(self, port: int = 0) -> None:
        self.session: Session | None = None
        self._http = _Http(("127.0.0.1", port), _Handler)
        self._http.owner = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        """What a browser is pointed at, while there is a session."""
        if self.session is None:
            raise RuntimeError("no session is open")
        return f"http://127.0.0.1:{self.port}/{self.session.token}/"

    def open(self, again: bool = False) -> Session:
        """A new session in place of the one before, under a fresh token; `again` keeps the token and has the page
        that is there reload itself, for a browser that somebody else started."""
        former = self.session
        if again and former:
            self.session = Session(former.token, former.former | {former.page or ""})
        else:
            self.session = Session(secrets.token_urlsafe(32))
        if former is not None:
            former.send({"reload" if again else "end": True})
        return self.session

    def end(self) -> None:
        """Tells the page, if it still asks, that there are no more jobs."""
        former, self.session = self.session, None
        if former is not None:
            former.send({"end": True})

    @property
    def serves(self) -> bool:
        return self._thread.is_alive()

    def close(self) -> None:
        self.end()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def cut(self) -> None:
        """Breaks every connection, whatever it is in the middle of."""
        for connection in list(self._http.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Http(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128  # with five a stranger's burst of connections delays the page's own by seconds
    allow_reuse_address = False  # on Windows it would let another server take the port
    owner: Server

    def __init__(self, address: tuple[str, int], handler: type[_Handler]) -> None:
        self.connections: set[socket.socket] = set()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke is told through the session, not printed."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "pytest-webgpu", ""
    disable_nagle_algorithm = True
    wbufsize = -1  # headers and body leave in one segment; with Nagle off, 70 ms less a job
    timeout = 60.0
    server: _Http

    def do_GET(self) -> None:
        session, name, query = self._route()
        if session is None:
            return
        if name == "alive" and session.claim(query.removeprefix("page=")):
            self._watch(session)
        elif name in FILES:
            file, kind = FILES[name]
            self._reply(200, [resources.files(__package__).joinpath(file).read_bytes()], kind)
        else:
            self._refuse(409 if name == "alive" else 404)

    def do_POST(self) -> None:
        session, name, _ = self._route()
        if session is None:
            return
        page = self.headers.get("X-Page", "")
        if name == "exchange" and page in session.former:  # what it has to say is about a device that is gone
            if self._receive(Session("")):
                self._reply(200, pack({"reload": True}, []))
            return
        if name != "exchange" or not session.claim(page):
            self._refuse(409 if name == "exchange" else 404)
            return
        if not self._receive(session):
            self.close_connection = True
            return
        try:
            pieces = session.outbox.get(timeout=IDLE_SECONDS)
        except queue.Empty:
            self._reply(204, [])
            return
        try:
            self._reply(200, pieces)
            self.wfile.flush()
        except OSError as error:
            session.gone(f"the transfer of the job was cut ({error})")
            self.close_connection = True

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the library itself refuses (other methods, lines too long): as everything else, without a word."""
        self._refuse(code)

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: the terminal is pytest's."""

    def _route(self) -> tuple[Session | None, str, str]:
        path, _, query = self.path.partition("?")
        token, slash, name = path.removeprefix("/").partition("/")
        session = self.server.owner.session
        if session is None or not slash or not secrets.compare_digest(token.encode(), session.token.encode()):
            self._refuse(403)
            return None, "", ""
        return session, name, query

    def _receive(self, session: Session) -> bool:
        """Reads the request's body into the session's inbox; an empty one says only that the page is idle."""
        length = self.headers.get("Content-Length", "0")
        try:
            body = bytearray(int(length))
        except (ValueError, OverflowError, MemoryError) as error:
            session.gone(f"the page sent a body of {length[:30]} bytes ({type(error).__name__})")
            return False
        view, got = memoryview(body), 0
        try:
            while got < len(body) and (count := self.rfile.readinto(view[got:])):
                got += count
        except OSError:
            pass
        if got < len(body):
            session.gone(f"the transfer of the result was cut after {got} of {len(body)} bytes")
            return False
        if body:
            try:
                session.inbox.put(Message(*unpack(body)))
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                session.gone(f"the page sent what is no message ({error})")
                return False
        return True

    def _watch(self, session: Session) -> None:
        """Holds the request until the page's end breaks it."""
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        self.connection.settimeout(1.0)
        owner = self.server.owner
        with contextlib.suppress(OSError):
            while owner.session is session:
                self.wfile.write(b"\n")
                self.wfile.flush()
                with contextlib.suppress(TimeoutError):
                    if not self.connection.recv(1):
                        break
            if owner.session is not None and owner.session.token == session.token:
                self.wfile.write(b"reload\n")
        ended = owner.session is not session
        session.gone("the server was stopped" if ended else "the page was closed, or its process ended")

    def _reply(self, status: int, pieces: Sequence[Bytes], kind: str = "application/octet-stream") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if status != 204:
            self.send_header("Content-Length", str(sum(memoryview(p).nbytes for p in pieces)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")  # with the next: the clock's fine step
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        self.end_headers()
        for piece in pieces:
            self.wfile.write(memoryview(piece).cast("B"))

    def _refuse(self, status: int) -> None:
        """Without a body, and without reading one: nothing is told to a stranger."""
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
