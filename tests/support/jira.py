"""A fake Jira: a real HTTP server with the few endpoints that we use, and configurable faults.

    with jira_server() as jira:
        settings = {"url": jira.url, "project": "OPS", "user": USER, "token": "env:JIRA_TOKEN", ...}   # TOKEN
        ...
        jira.wait(lambda issues: "OPS-1" in issues)
        jira.move("OPS-1", "Approved", by="acc-ann")          # a person moves it on the board
        headers, body = jira.hook("OPS-1", secret="...")      # the webhook for the last change
        jira.say("OPS-1", "approve, fine", by="acc-ann")

The statuses are To Do (initial), Approved, Declined and Done, with transitions between all of them. With
`jira_server(cloud=False)`, it acts as Data Center: REST 2, wiki text, a bearer token, and people with keys and names.
"""

import contextlib
import hashlib
import hmac
import json
import re
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any
from urllib.parse import parse_qs, urlsplit

PATIENCE = 120.0
USER, TOKEN = "assent@example.com", "token-of-the-bot"
US = "acc-assent"
STATUSES = {"To Do": "11", "Approved": "21", "Declined": "31", "Done": "41"}


@dataclass
class Issue:
    key: str
    fields: dict[str, Any]
    status: str = "To Do"
    comments: list[dict[str, Any]] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    updated: int = 0
    told: dict[str, Any] = field(default_factory=dict)
    """The webhook payload of the last change, without the issue."""


@dataclass(frozen=True)
class Fault:
    status: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128


class Jira:
    def __init__(self, *, cloud: bool = True) -> None:
        self.cloud = cloud
        self.issues: dict[str, Issue] = {}
        self.requests: list[str] = []
        """Method and path of every request, in order of arrival."""
        self.searches: list[str] = []
        self._changed = threading.Condition()
        self._faults: list[tuple[str, Fault]] = []
        self._drops = 0
        self._held: threading.Event | None = None
        self._hidden: set[str] | None = None
        self._numbers = count(10_001)
        self._server = _Server(("127.0.0.1", 0), self._handler())

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def fail(self, what: str, *statuses: int, **headers: str) -> None:
        """Respond to the next requests that start with this `METHOD path` with these statuses; `retry_after="7"` sets a
        header.
        """
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._faults += [(what, Fault(status, named)) for status in statuses]

    def drop(self, times: int = 1) -> None:
        """Store the next issues and comments, but close the connection without a response."""
        self._drops = times

    def hold(self) -> None:
        """Do not respond to requests until `let_go`."""
        self._held = threading.Event()

    def let_go(self) -> None:
        if self._held is not None:
            self._held.set()
            self._held = None

    def lag(self) -> None:
        """Hide issues created from now on from searches, until `catch_up`."""
        self._hidden = set()

    def catch_up(self) -> None:
        self._hidden = None

    def wait(self, enough: Callable[[dict[str, Issue]], bool], *, seconds: float = PATIENCE) -> bool:
        """Return True as soon as the condition holds, or False after the timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: enough(self.issues), seconds)

    def move(self, key: str, status: str, *, by: str, comment: str | None = None) -> None:
        """Move an issue as a person does; the optional comment is made in the same dialog."""
        with self._changed:
            issue = self.issues[key]
            at = _moment(issue)
            change = {
                "id": str(next(self._numbers)),
                "author": self.person(by),
                "created": at,
                "items": [{"field": "status", "fromString": issue.status, "toString": status}],
            }
            issue.status = status
            issue.history.append(change)
            log = {"id": change["id"], "items": change["items"]}
            issue.told = {"webhookEvent": "jira:issue_updated", "user": change["author"], "changelog": log}
            if comment is not None:
                told = issue.told
                said = self._add_comment(issue, document(comment) if self.cloud else comment, by)
                said["created"] = at
                issue.told = told | {"comment": said}
            self._touch(issue)

    def say(self, key: str, text: str, *, by: str, edited_by: str | None = None) -> None:
        body = document(text) if self.cloud else text
        with self._changed:
            self._add_comment(self.issues[key], body, by, edited_by=edited_by)

    def hook(self, key: str, *, secret: str) -> tuple[dict[str, str], bytes]:
        """Return the headers and body of the webhook for the last change of an issue."""
        with self._changed:
            issue = self.issues[key]
            body = json.dumps({"timestamp": 1, **issue.told, "issue": self._shown(issue)}).encode()
        return signed(body, secret=secret), body

    def person(self, name: str) -> dict[str, Any]:
        return {"accountId": name} if self.cloud else {"key": name, "name": f"{name}.name"}

    def texts(self, key: str) -> list[str]:
        """Return the bodies of an issue's comments as JSON, oldest first."""
        return [json.dumps(each["body"], ensure_ascii=False) for each in self.issues[key].comments]

    def count(self, what: str) -> int:
        return sum(each.startswith(what) for each in self.requests)

    def _touch(self, issue: Issue) -> None:
        issue.updated += 1
        self._changed.notify_all()

    def _shown(self, issue: Issue) -> dict[str, Any]:
        fields = issue.fields | {"status": {"name": issue.status}, "updated": f"{issue.updated}"}
        return {"id": issue.key, "key": issue.key, "fields": fields}

    def _add_comment(self, issue: Issue, body: Any, by: str, *, edited_by: str | None = None) -> dict[str, Any]:
        comment = {
            "id": str(next(self._numbers)),
            "author": self.person(by),
            "updateAuthor": self.person(edited_by or by),
            "created": _moment(issue),
            "body": body,
        }
        issue.comments.append(comment)
        issue.told = {"webhookEvent": "comment_created", "comment": comment}
        self._touch(issue)
        return comment

    def answer(self, method: str, target: str, proof: str, sent: Any) -> tuple[int, dict[str, str], Any]:
        """Handle a request; configured faults and a wrong token take precedence."""
        parts = urlsplit(target)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        path = parts.path.removeprefix(f"/rest/api/{3 if self.cloud else 2}/")
        with self._changed:
            self.requests.append(f"{method} {path}")
            place = next((n for n, (what, _) in enumerate(self._faults) if f"{method} {path}".startswith(what)), None)
            if place is not None:
                _, fault = self._faults.pop(place)
                return fault.status, dict(fault.headers), {}
            if proof != self._proof():
                return 401, {}, {}
            return self._done(method, path, query, sent)

    def _proof(self) -> str:
        return f"Basic {b64encode(f'{USER}:{TOKEN}'.encode()).decode()}" if self.cloud else f"Bearer {TOKEN}"

    def _done(self, method: str, path: str, query: dict[str, str], sent: Any) -> tuple[int, dict[str, str], Any]:
        if path == "myself":
            return 200, {}, self.person(US)
        if path == "project/OPS":
            return 200, {}, {"key": "OPS", "name": "Operations"}
        if path == ("search/jql" if self.cloud else "search") and method == "GET":
            return 200, {}, self._search(query)
        if (method, path) == ("POST", "issue"):
            return self._create(sent["fields"])
        found = re.fullmatch(r"issue/([A-Z]+-\d+)(?:/(\w+))?", path)
        if found is None or found[1] not in self.issues:
            return 404, {}, {}
        return self._of_issue(method, self.issues[found[1]], found[2] or "", sent)

    def _create(self, fields: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
        valid = isinstance(fields["description"], dict if self.cloud else str)
        if fields["project"] != {"key": "OPS"} or fields["issuetype"] != {"name": "Task"} or not valid:
            return 400, {}, {"errorMessages": ["no"]}
        issue = Issue(f"OPS-{len(self.issues) + 1}", fields)
        self.issues[issue.key] = issue
        if self._hidden is not None:
            self._hidden.add(issue.key)
        self._touch(issue)
        return 201, {}, {"id": issue.key, "key": issue.key}

    def _of_issue(self, method: str, issue: Issue, what: str, sent: Any) -> tuple[int, dict[str, str], Any]:
        answer: Any = None
        match method, what:
            case "GET", "":
                answer = self._shown(issue) | ({} if self.cloud else {"changelog": {"histories": issue.history}})
            case "GET", "changelog":
                answer = {"values": issue.history, "total": len(issue.history)}
            case "GET", "comment":
                answer = {"comments": list(reversed(issue.comments))}
            case "GET", "transitions":
                answer = {
                    "transitions": [
                        {"id": STATUSES[name], "name": f"To {name}", "to": {"name": name}} for name in STATUSES
                    ]
                }
            case "POST", "comment":
                return 201, {}, self._add_comment(issue, sent["body"], US)
            case "POST", "transitions":
                names = {number: name for name, number in STATUSES.items()}
                self.move(issue.key, names[sent["transition"]["id"]], by=US)
        return (204, {}, None) if answer is None else (200, {}, answer)

    def _search(self, query: dict[str, str]) -> dict[str, Any]:
        """Parse only the searches that Assent sends."""
        jql = query["jql"]
        self.searches.append(jql)
        label = re.search(r'labels = "?([\w-]+)"?', jql)
        statuses = re.search(r"status in \(([^)]*)\)", jql)
        assert label is not None
        assert 'project = "OPS"' in jql
        assert query["fields"]
        found = [
            self._shown(issue)
            for issue in self.issues.values()
            if label[1] in issue.fields["labels"]
            and (statuses is None or f'"{issue.status}"' in statuses[1])
            and issue.key not in (self._hidden or ())
        ]
        start = int(query.get("nextPageToken" if self.cloud else "startAt", "0"))
        page = found[start : start + int(query["maxResults"])]
        more = {"nextPageToken": str(start + len(page))} if self.cloud and start + len(page) < len(found) else {}
        return {"issues": page, **more}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        jira = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:  # the name that http.server expects
                held = jira._held
                if held is not None:
                    held.wait(PATIENCE)
                length = int(self.headers.get("content-length") or "0")
                sent = json.loads(self.rfile.read(length)) if length else None
                status, headers, body = jira.answer(self.command, self.path, self.headers["authorization"], sent)
                if jira._drops and status == 201:
                    jira._drops -= 1
                    self.close_connection = True
                    return
                encoded = b"" if body is None else json.dumps(body).encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if status != 204:
                    self.send_header("content-length", str(len(encoded)))
                self.end_headers()
                self.wfile.write(encoded)

            do_POST = do_GET  # noqa: N815

            def handle(self) -> None:
                with contextlib.suppress(OSError):
                    super().handle()

            def log_message(self, *_: Any) -> None:
                """Log nothing, because requests are recorded."""

        return Handler

    def start(self) -> None:
        quick = {"poll_interval": 0.02}  # limits how long stopping takes
        threading.Thread(target=self._server.serve_forever, kwargs=quick, name="jira", daemon=True).start()

    def stop(self) -> None:
        self.let_go()
        self._server.shutdown()
        self._server.server_close()


def signed(body: bytes, *, secret: str) -> dict[str, str]:
    mac = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {
        "content-type": "application/json",
        "x-hub-signature": f"sha256={mac}",
        "x-atlassian-webhook-identifier": hashlib.sha256(body).hexdigest(),
    }


def document(text: str) -> dict[str, Any]:
    return {
        "type": "doc",
        "version": 1,
        "content": [{"type": "paragraph", "content": [{"type": "text", "text": text}]}],
    }


def _moment(issue: Issue) -> str:
    """Return a time one hour after the previous change of the issue."""
    return f"2026-11-{1 + issue.updated // 24:02}T{issue.updated % 24:02}:00:00.000+0000"


@contextlib.contextmanager
def jira_server(*, cloud: bool = True) -> Iterator[Jira]:
    jira = Jira(cloud=cloud)
    jira.start()
    try:
        yield jira
    finally:
        jira.stop()
