"""A model server on loopback that agents talk to: Anthropic messages and OpenAI responses, both as event streams.

It follows a script: the tool calls to make, one reply each, then a closing message.  Everything it received is kept.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

TOKENS = {"prompt": 1000, "cached": 200, "completion": 50}
"""What each reply is said to cost."""


class ModelServer:
    """`commands`: shell commands, one tool call each.  `forever`: the last one again and again.

    `stall`: never answer.  `refuse`: answer with this status instead.
    """

    def __init__(
        self, commands: Iterable[str] = (), *, forever: bool = False, stall: bool = False, refuse: int = 0
    ) -> None:
        self.commands = list(commands)
        self.forever = forever
        self.received: list[str] = []
        """Path, headers and body of every request, as text."""
        self.asked = threading.Event()
        """Set by the first request for a reply."""
        self.over = threading.Event()
        self.stall = stall
        self.refuse = refuse
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def url(self) -> str:
        """Base URL without /v1."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.over.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def reply(self, path: str, body: Mapping[str, Any]) -> bytes | None:
        """The event stream for a request; None for a path that is unknown."""
        if path.startswith("/v1/messages") and "count_tokens" not in path:
            kind, done = _anthropic, sum(_answers(message["content"]) for message in body["messages"])
        elif path.startswith("/v1/responses"):
            kind, done = _responses, sum(item.get("type") == "function_call_output" for item in body["input"])
        else:
            return None
        self.asked.set()
        if self.stall:
            self.over.wait()
        if done < len(self.commands):
            return kind(self.commands[done], done)
        return kind(self.commands[-1] if self.forever else None, done)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def do_GET(self) -> None:
                self._keep(b"")
                self.send_error(404)

            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers.get("content-length", 0)))
                self._keep(data)
                out = server.reply(self.path, json.loads(data or b"{}"))
                if out is None:
                    self.send_error(404)
                    return
                kind = "text/event-stream"
                if server.refuse:
                    said = {"type": "authentication_error", "message": "no such key"}
                    out, kind = json.dumps({"type": "error", "error": said}).encode(), "application/json"
                try:
                    self.send_response(server.refuse or 200)
                    self.send_header("content-type", kind)
                    self.send_header("content-length", str(len(out)))
                    self.end_headers()
                    self.wfile.write(out)
                except OSError:
                    self.close_connection = True

            def _keep(self, data: bytes) -> None:
                with server._lock:
                    server.received.append(f"{self.path}\n{self.headers}\n{data.decode('utf-8', 'replace')}")

        return Handler


def _answers(content: Any) -> int:
    return sum(part.get("type") == "tool_result" for part in content) if isinstance(content, list) else 0


def _stream(events: Iterable[Mapping[str, Any]]) -> bytes:
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


def _anthropic(command: str | None, number: int) -> bytes:
    fresh = TOKENS["prompt"] - TOKENS["cached"]
    usage = {"input_tokens": fresh, "cache_read_input_tokens": TOKENS["cached"], "output_tokens": 1}
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "m", "content": []}
    blocks: list[tuple[dict[str, Any], dict[str, Any]]] = []
    text = "I am done." if command is None else "I change one thing."
    blocks.append(({"type": "text", "text": ""}, {"type": "text_delta", "text": text}))
    if command is not None:
        tool = {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": {}}
        arguments = json.dumps({"command": command, "description": "change"})
        blocks.append((tool, {"type": "input_json_delta", "partial_json": arguments}))
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {**message, "usage": usage}}]
    for index, (block, delta) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    why = "end_turn" if command is None else "tool_use"
    delta = {"stop_reason": why, "stop_sequence": None}
    events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": TOKENS["completion"]}})
    return _stream([*events, {"type": "message_stop"}])


def _responses(command: str | None, number: int) -> bytes:
    if command is None:
        part = {"type": "output_text", "text": "I am done."}
        item = {"type": "message", "role": "assistant", "id": f"msg_{number}", "content": [part]}
    else:
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": "exec_command"}
        item["arguments"] = json.dumps({"cmd": command})
    usage = {
        "input_tokens": TOKENS["prompt"],
        "input_tokens_details": {"cached_tokens": TOKENS["cached"]},
        "output_tokens": TOKENS["completion"],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": TOKENS["prompt"] + TOKENS["completion"],
    }
    return _stream(
        [
            {"type": "response.created", "response": {"id": f"resp_{number}"}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": {"id": f"resp_{number}", "usage": usage}},
        ]
    )
