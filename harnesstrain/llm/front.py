"""The HTTP front: OpenAI routes over any Model, on a port chosen at run time.

Routes: `POST /v1/chat/completions` (a stream is sent as chunks once the reply is complete), `GET /v1/models`,
`POST /tokenize`, `GET /health`.  `/v1/models` publishes the whole endpoint record in the field `harnesstrain`;
`system_fingerprint` is its fingerprint.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar
from uuid import uuid4

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from harnesstrain.core.errors import BadRequest, HtError, LlmFailure, Prerequisite
from harnesstrain.core.ports import StopSignal
from harnesstrain.core.records.llm import Endpoint, Reply
from harnesstrain.llm import intake
from harnesstrain.llm.base import Abortable, Inspectable, Model
from harnesstrain.llm.faults import error_body, status_and_body
from harnesstrain.llm.lanes import Lanes
from harnesstrain.llm.wire import OWN_FIELD, completion_body, completion_chunks

log = logging.getLogger(__name__)
T = TypeVar("T")


class Front:
    """Serves one model.  `start` binds and returns once it answers; `close` stops it and leaves the model open."""

    def __init__(
        self,
        model: Model,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        max_running: int | None = None,
        max_waiting: int = 256,
        max_bytes: int = 16 * 1024 * 1024,
    ) -> None:
        """`port` 0: any free one.  `max_running`: requests at once, at most what the model takes; None: that many.
        `max_waiting`: requests in the queue.  `max_bytes`: largest request body.  Raises LlmFailure when the model
        cannot say what it is.
        """
        endpoint = model.endpoint()
        width = min(max_running or endpoint.max_running, endpoint.max_running)
        self.endpoint: Endpoint = endpoint.model_copy(update={"max_running": width})
        self._model = model
        self._width = width
        self._host, self._port = host, port
        self._max_bytes = max_bytes
        self._fingerprint = endpoint.fingerprint
        self._lanes = Lanes(width, max_waiting=max_waiting, name="completion")
        self._counting = Lanes(1, max_waiting=max_waiting, name="tokenize")
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Front:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def publish(self, endpoint: Endpoint) -> bool:
        """Say from now on that the model is `endpoint`, and run no more at once than that takes.

        The fingerprint stays.  Returns whether anything changed.
        """
        width = min(self._width, endpoint.capacity or endpoint.max_running)
        said = endpoint.model_copy(
            update={
                "max_running": min(width, endpoint.max_running),
                "capacity": None if endpoint.capacity is None else width,
            }
        )
        changed = said != self.endpoint
        self.endpoint = said
        if width != self._lanes.width:
            self._lanes.narrow(width)
        return changed

    @property
    def url(self) -> str:
        """The base URL for clients, ending in /v1."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}/v1"

    @property
    def alive(self) -> bool:
        """Whether it serves."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> Front:
        """Bind and serve in a thread of its own.  Raises Prerequisite when the address cannot be had."""
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        # With the protocol named, connections send at once; without it, each reply waits 40 ms for an acknowledgement.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self._host, self._port))
        except OSError as error:
            listener.close()
            raise Prerequisite(
                f"{self._host} port {self._port} cannot be had: {error.strerror}", hint="choose another --port"
            ) from None
        self._port = listener.getsockname()[1]
        config = uvicorn.Config(
            self._application(),
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=2,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([listener],), name="front", daemon=True)
        self._thread.start()
        while not self._server.started:
            self._thread.join(0.005)
            if not self._thread.is_alive():
                raise Prerequisite("the HTTP front did not start", hint="its log says why")
        return self

    def close(self) -> None:
        """Stop: requests in the queue and running ones are given up.  Calling it again does nothing."""
        self._lanes.close()
        self._counting.close()
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join(10.0)

    def _application(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
                Route("/v1/models", self._models, methods=["GET"]),
                Route("/health", self._health, methods=["GET"]),
                Route("/tokenize", self._tokenize, methods=["POST"]),
                Route("/v1/tokenize", self._tokenize, methods=["POST"]),
            ],
            exception_handlers={HTTPException: _http_error},
        )

    async def _chat(self, request: Request) -> Response:
        taken: intake.Intake | None = None

        def work(stop: StopSignal) -> Reply:
            assert taken is not None
            return self._complete(taken, stop)

        try:
            taken = intake.parse(await self._read(request), self.endpoint)
            reply = await self._run(self._lanes, work, request)
        except (HtError, ClientDisconnect) as error:
            return _failed(error)
        except Exception:
            log.exception("a completion failed")
            return _json(500, error_body("the server has a bug; its log says more", kind="server_error", code="bug"))
        ident = f"chatcmpl-{uuid4().hex}"
        if not taken.stream:
            return _json(200, completion_body(reply, self.endpoint, ident))
        chunks = completion_chunks(reply, self.endpoint, ident, usage=taken.stream_usage)
        lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
        return Response("".join([*lines, "data: [DONE]\n\n"]), media_type="text/event-stream")

    async def _models(self, request: Request) -> Response:
        endpoint = self.endpoint
        entry = {
            "id": endpoint.model,
            "object": "model",
            "created": 0,
            "owned_by": "harnesstrain",
            "max_model_len": endpoint.context_length,
            "system_fingerprint": self._fingerprint,
            OWN_FIELD: endpoint.model_dump(mode="json"),
        }
        return _json(200, {"object": "list", "data": [entry]})

    async def _health(self, request: Request) -> Response:
        state = {
            "status": "ok",
            "fingerprint": self._fingerprint,
            "max_running": self._lanes.width,
            "running": self._lanes.running,
            "waiting": self._lanes.waiting,
            "crowds": list(self._lanes.crowds),
        }
        return _json(200, state)

    async def _tokenize(self, request: Request) -> Response:
        try:
            messages = intake.messages_of(intake.decode(await self._read(request)))
            count = await self._run(self._counting, lambda stop: self._model.count_tokens(messages), request)
        except (HtError, ClientDisconnect) as error:
            return _failed(error)
        except Exception:
            log.exception("a token count failed")
            return _json(500, error_body("the server has a bug; its log says more", kind="server_error", code="bug"))
        return _json(200, {"count": count, "max_model_len": self.endpoint.context_length})

    async def _read(self, request: Request) -> bytes:
        """The body.  Raises BadRequest when it is too long."""
        parts: list[bytes] = []
        size = 0
        async for part in request.stream():
            size += len(part)
            if size > self._max_bytes:
                raise BadRequest(f"the request is longer than {self._max_bytes} bytes", status=413)
            parts.append(part)
        return b"".join(parts)

    async def _run(self, lanes: Lanes, work: Callable[[StopSignal], T], request: Request) -> T:
        """Queue `work` and wait for it, or until the client is gone (ClientDisconnect)."""
        job = lanes.submit(work)
        result = asyncio.wrap_future(job.done)
        gone = asyncio.ensure_future(_disconnected(request))
        try:
            both: set[asyncio.Future[Any]] = {result, gone}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not result.done():
                raise ClientDisconnect
            return result.result()
        finally:
            gone.cancel()
            if not result.done():
                job.give_up()
                result.cancel()

    def _complete(self, taken: intake.Intake, stop: StopSignal) -> Reply:
        request = taken.request
        if (taken.logprobs or taken.cold) and isinstance(self._model, Inspectable):
            return self._model.inspect(request, cold=taken.cold, stop=stop)
        if isinstance(self._model, Abortable):
            return self._model.complete_until(request, stop)
        return self._model.complete(request)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _json(error.status_code, error_body(error.detail, kind="invalid_request_error", code="not_found"))


def _failed(error: HtError | ClientDisconnect) -> Response:
    if isinstance(error, ClientDisconnect):
        return Response(status_code=499)
    status, body = status_and_body(error)
    if isinstance(error, LlmFailure):
        status = error.extra.get("status", status) if isinstance(error, BadRequest) else status
        body["error"]["param"] = error.extra.get("param", body["error"]["param"])
    return _json(status, body, {"Retry-After": "1"} if status == 429 else None)


def _json(status: int, body: Any, headers: dict[str, str] | None = None) -> Response:
    return Response(json.dumps(body), status_code=status, headers=headers, media_type="application/json")
