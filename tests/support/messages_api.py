"""A fake model behind the Messages API: it follows a script, and responds with real server-sent events."""

import contextlib
import json
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

Asked: TypeAlias = Mapping[str, Any]
"""The body of a request: the messages and the available tools."""


@dataclass(frozen=True)
class Turn:
    """The model's next turn: text, or tool calls with their inputs."""

    text: str = ""
    calls: Sequence[tuple[str, Mapping[str, Any]]] = ()

    @property
    def content(self) -> list[dict[str, Any]]:
        said: list[dict[str, Any]] = [{"type": "text", "text": self.text}] if self.text else []
        return said + [
            {"type": "tool_use", "id": f"toolu_{uuid.uuid4().hex[:24]}", "name": name, "input": {**given}}
            for name, given in self.calls
        ]


Script: TypeAlias = Callable[[Asked], Turn]


def has_tool(asked: Asked, name: str) -> bool:
    """Return whether the model has this tool; clients also make requests without tools, such as for titles."""
    return any(tool.get("name") == name for tool in asked.get("tools") or ())


def heard(asked: Asked) -> list[str]:
    """Return the results of the model's last tool calls, each on one line."""
    content = asked["messages"][-1]["content"]
    results = [] if isinstance(content, str) else [each for each in content if each.get("type") == "tool_result"]
    return [_line(each.get("content") or "") for each in results]


def _line(content: Any) -> str:
    parts = [content] if isinstance(content, str) else [each.get("text", "") for each in content]
    return " ".join(" ".join(parts).split())


@contextlib.contextmanager
def messages_api(script: Script) -> Iterator[str]:
    """Serve a model that follows the script, and yield its URL."""

    class Handler(_Handler):
        follow = staticmethod(script)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{serving.server_address[1]}"
        finally:
            serving.shutdown()


class _Handler(BaseHTTPRequestHandler):
    follow: Script
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        path = self.path.partition("?")[0]
        if path.endswith("/count_tokens"):
            self._json({"input_tokens": 10})
        elif path != "/v1/messages":
            self.send_error(404)
        elif asked.get("stream"):
            self._stream(asked["model"], self.follow(asked).content)
        else:
            self._json(_message(asked["model"]) | _end(self.follow(asked).content))

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        self.do_HEAD()

    def log_message(self, *_: object) -> None:
        """Log nothing, to keep requests out of the test output."""

    def _json(self, body: Mapping[str, Any]) -> None:
        self._send("application/json", json.dumps(body))

    def _stream(self, model: str, content: Sequence[Mapping[str, Any]]) -> None:
        self._send("text/event-stream", "".join(map(_sse, _events(model, content))))

    def _send(self, kind: str, text: str) -> None:
        encoded = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)


def _sse(event: Mapping[str, Any]) -> str:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"


def _message(model: str) -> dict[str, Any]:
    return {
        "id": f"msg_{uuid.uuid4().hex[:24]}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 1},
    }


def _end(content: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    calls = any(block["type"] == "tool_use" for block in content)
    return {"content": list(content), "stop_reason": "tool_use" if calls else "end_turn"}


def _events(model: str, content: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    yield {"type": "message_start", "message": _message(model)}
    for index, block in enumerate(content):
        empty, change = _parts(block)
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        yield {"type": "content_block_delta", "index": index, "delta": change}
        yield {"type": "content_block_stop", "index": index}
    stop = {"stop_reason": _end(content)["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 10}}
    yield {"type": "message_stop"}


def _parts(block: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a block as it starts, and the delta that completes it."""
    if block["type"] == "text":
        return {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
    return {**block, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
