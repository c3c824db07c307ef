"""A loopback HTTP server that misbehaves as it is told: each request is answered by the next act of its list."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

GOOD = {
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "fine"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1},
}

MODELS = {"data": [{"id": "m", "object": "model", "created": 1, "owned_by": "somebody", "max_model_len": 4096}]}

Act = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class BadServer:
    """What it does next, and what it saw."""

    acts: list[Act] = field(default_factory=list)
    """For POSTs to chat completions, in order; the last one repeats."""
    models: Any = field(default_factory=lambda: MODELS)
    routes: dict[str, Act] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def posts(self) -> list[Seen]:
        return [request for request in self.seen if request.path == "/v1/chat/completions"]


def send(handler: BaseHTTPRequestHandler, status: int, body: bytes, **headers: str) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def says(body: Any, status: int = 200, **headers: str) -> Act:
    """Answer with JSON."""
    return lambda handler: send(handler, status, json.dumps(body).encode(), **headers)


def raw(data: bytes, status: int = 200) -> Act:
    """Answer with bytes."""
    return lambda handler: send(handler, status, data)


def hangs_up(handler: BaseHTTPRequestHandler) -> None:
    """Close without a word."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    handler.close_connection = True
    handler.connection.close()


def breaks_off(handler: BaseHTTPRequestHandler) -> None:
    """Promise more than is sent."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [')
    handler.wfile.flush()
    handler.close_connection = True


def trickles(stop: threading.Event) -> Act:
    """One byte now and then, for ever."""

    def act(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000000")
        handler.end_headers()
        handler.close_connection = True
        try:
            while not stop.wait(0.02):
                handler.wfile.write(b" ")
                handler.wfile.flush()
        except OSError:
            return

    return act


def silent(stop: threading.Event) -> Act:
    """No answer until `stop`."""

    def act(handler: BaseHTTPRequestHandler) -> None:
        stop.wait(30)
        handler.close_connection = True

    return act


@contextmanager
def bad_server(*acts: Act, models: Any = MODELS, routes: dict[str, Act] | None = None) -> Iterator[BadServer]:
    """Serve `acts`."""
    server = BadServer(list(acts) or [says(GOOD)], models, routes or {})
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            pass

        def _act(self, method: str) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            data = self.rfile.read(length)
            body = json.loads(data) if data else None
            with lock:
                server.seen.append(Seen(method, self.path, dict(self.headers.items()), body))
                act = server.routes.get(self.path)
                if act is None and self.path == "/v1/models":
                    act = says(server.models)
                elif act is None and self.path == "/v1/chat/completions":
                    act = server.acts.pop(0) if len(server.acts) > 1 else server.acts[0]
                elif act is None:
                    act = says({"error": "no such route"}, 404)
            act(self)

        def do_GET(self) -> None:
            self._act("GET")

        def do_POST(self) -> None:
            self._act("POST")

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass

        def shutdown_request(self, request: Any) -> None:
            with suppress(OSError):
                super().shutdown_request(request)

    http = Quiet(("127.0.0.1", 0), Handler)
    server.port = http.server_address[1]
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
