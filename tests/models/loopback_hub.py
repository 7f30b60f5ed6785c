"""A model hub on the loopback: the two requests of the hub client for one file, whole or faulty."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

Fault = Literal["none", "truncated", "missing", "server_error"]
REVISION = "0123456789abcdef0123456789abcdef01234567"


class LocalHub:
    """Serves ``files`` at /<repo>/resolve/<revision>/<file>; ``fault`` says how the next answers go wrong."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.fault: Fault = "none"
        self.asked: list[str] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self) -> None:
                self._answer(body=False)

            def do_GET(self) -> None:
                self._answer(body=True)

            def _answer(self, body: bool) -> None:
                hub.asked.append(f"{self.command} {self.path}")
                name = self.path.rpartition("/")[2]
                if hub.fault == "server_error":
                    self.send_error(500)
                    return
                if hub.fault == "missing" or name not in hub.files:
                    self.send_response(404)
                    self.send_header("X-Error-Code", "EntryNotFound")
                    self.send_header("X-Repo-Commit", REVISION)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                data = hub.files[name]
                self.send_response(200)
                self.send_header("X-Repo-Commit", REVISION)
                self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
                self.send_header("Content-Length", str(len(data)))
                if body and hub.fault == "truncated":
                    self.send_header("Connection", "close")
                    self.close_connection = True
                self.end_headers()
                if body:
                    self.wfile.write(data[: len(data) // 2] if hub.fault == "truncated" else data)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    @contextmanager
    def serving(self) -> Iterator[LocalHub]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()
