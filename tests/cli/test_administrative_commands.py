"""Every command records an admin event, only reads, or calls an endpoint that other tests cover."""

import contextlib
import json
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from assent.cli.data import on_data, operator
from assent.cli.main import loaded
from assent.cli.registry import HOMES
from assent.core.access import Kind, Principal, Role
from assent.kernel.settings import Settings
from assent.people.usecases.people import PeopleService
from assent.platform.admin_events import ACTS as TYPES
from assent.platform.admin_events import AdminEvent
from assent.platform.admin_log import SELECT, event_of
from tests.api.outside import PROCESS, PUSH, SECRET
from tests.api.test_administrative_acts import ACTS as ENDPOINT_ACTS
from tests.api.test_administrative_acts import classified as endpoints
from tests.cli.commands import COMMAND, Desk, environment, here, here_json, run
from tests.cli.test_broken_file import leaves, on_the_data
from tests.delivery.commands.test_delivery import settled
from tests.policy.api.test_rules_file import file_of
from tests.policy.commands.test_receipts import approved
from tests.policy.commands.test_receipts import call as receipt_call
from tests.sdk.scripted import Say, scripted
from tests.support.admin_events import assert_recorded
from tests.support.nodes import free_port, prepared, ready, server
from tests.support.original import OriginalService, minute
from tests.triggers.commands.test_triggers import WHSEC, sent
from tests.web.test_administrative_forms import classified as forms

ASKS = "POST /api/breakpoints"
ANSWERS = "POST /api/breakpoints/{breakpoint_id}/feedback"
CHANGES_RULE = "PATCH /api/rules/{rule_id}"
REMOVES_RULE = "DELETE /api/rules/{rule_id}"
BY_ENDPOINT: dict[str, tuple[str, ...]] = {
    "approve": (ANSWERS,),
    "ask": (ASKS,),
    "breakpoint:approve-rule": ("POST /api/rules", CHANGES_RULE),
    "breakpoint:remove-rule": (REMOVES_RULE,),
    "breakpoint:should-auto-approve": ("POST /api/rules/check",),
    "cancel": ("POST /api/breakpoints/{breakpoint_id}/cancel",),
    "channel add": ("POST /api/channels",),
    "channel link": ("PUT /api/channels/{channel_id}/links",),
    "channel remove": ("DELETE /api/channels/{channel_id}",),
    "channel set": ("PATCH /api/channels/{channel_id}",),
    "channel test": ("POST /api/channels/{channel_id}/test",),
    "channel unlink": ("DELETE /api/channels/{channel_id}/links",),
    "comment": (ANSWERS,),
    "delivery retry": ("POST /api/deliveries/{delivery_id}/retry",),
    "doctor": (ASKS, "POST /api/breakpoints/{breakpoint_id}/cancel", "POST /api/rules/check"),
    "gate": (ASKS, "POST /api/receipts/consume"),
    "mcp": (ASKS, "POST /api/breakpoints/{breakpoint_id}/cancel"),
    "receipt rotate-key": ("POST /api/receipts/keys/rotate",),
    "receipt verify": ("POST /api/receipts/consume",),
    "reject": (ANSWERS,),
    "route add": ("POST /api/routes",),
    "route check": ("POST /api/routes/check",),
    "route remove": ("DELETE /api/routes/{route_id}",),
    "rule add": ("POST /api/rules",),
    "rule backtest": ("POST /api/rules/backtest",),
    "rule change": (CHANGES_RULE,),
    "rule check": ("POST /api/rules/check",),
    "rule disable": (CHANGES_RULE,),
    "rule enable": (CHANGES_RULE,),
    "rule import": ("POST /api/rules/import",),
    "rule remove": (REMOVES_RULE,),
    "run cancel": ("POST /api/runs/{run_id}/cancel",),
    "run retry": ("POST /api/runs/{run_id}/retry",),
    "run start": ("POST /api/runs",),
    "source add": ("POST /api/sources",),
    "source remove": ("DELETE /api/sources/{source_id}",),
    "trigger add": ("POST /api/triggers",),
    "trigger discard": ("POST /api/firings/{firing_id}/discard",),
    "trigger remove": ("DELETE /api/triggers/{trigger_id}",),
    "trigger replay": ("POST /api/trigger-events/{event_id}/replay",),
    "trigger resume": ("POST /api/triggers/{trigger_id}/resume",),
    "trigger retry": ("POST /api/firings/{firing_id}/retry",),
    "trigger send": ("/hooks/{source}", "/hooks/{source}/{key}"),
    "trigger suspend": ("POST /api/triggers/{trigger_id}/suspend",),
    "trigger test": ("POST /api/trigger-events/test",),
}
"""Commands that contact a server, with the endpoints that they call to make or preview a change."""
READS = {
    *("breakpoint:history", "breakpoint:list-rules", "inbox", "process list", "receipt get", "receipt keys", "show"),
    *("channel links", "channel list", "channel manifest", "channel show", "delivery list", "delivery show"),
    *("route list", "rule events", "rule export", "rule list", "rule shadow", "rule show", "wait"),
    *("run export", "run list", "run logs", "run show", "source list", "source show"),
    *("trigger event", "trigger events", "trigger firings", "trigger list", "trigger next", "trigger show"),
}
"""Commands that only read from a server."""
ELSEWHERE = {
    "hook claude install": "writes the settings of Claude Code on this machine",
    "hook claude resume": "waits for answers and starts a program on this machine",
    "hook claude uninstall": "writes the settings of Claude Code on this machine",
    "hooks install": "writes hooks of git on this machine",
    "hooks status": "reads hooks of git on this machine",
    "hooks uninstall": "writes hooks of git on this machine",
    "worker": "carries out what others ordered, beside other nodes; needs PostgreSQL",
}
READS_DATA: dict[str, tuple[str, ...]] = {
    "audit consistency": ("1", "1"),
    "audit events": (),
    "audit export": ("{folder}/exported.jsonl",),
    "audit keys": (),
    "audit proof": ("{breakpoint_id}",),
    "audit verify": (),
    "backup": ("{folder}/saved.tar",),
    "check": (),
    "fsck": (),
    "group list": (),
    "hold list": (),
    "migrate": (),
    "secrets list": (),
    "token list": (),
    "trigger validate": (),
    "user list": (),
}
"""Commands that use the data directly but record no event, with their arguments."""
ASKING = """
from assent import process


@process(name="ask-first")
async def ask_first(inputs, ctx):
    return await ctx.breakpoint("Go on?")
"""
ASSENT_YAML = "sources:\n  nightly: {kind: schedule, cron: '30 2 * * *'}\n"
EVE = Principal(kind=Kind.PERSON, id="per_eve", name="eve", project="default", roles=frozenset({Role.ADMIN}))


@dataclass
class Place:
    """A data directory, the events since the previous check, and the IDs of objects that commands created."""

    folder: Path
    kept: dict[str, str] = field(default_factory=dict[str, str])
    office: Desk | None = None
    """A server that uses the data; its reviewer is an admin."""
    seen: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def desk(self) -> Desk:
        assert self.office is not None, "only commands that talk to a server need one"
        return self.office

    @property
    def settings(self) -> Settings:
        return Settings(data_dir=self.data)

    def new(self) -> list[AdminEvent]:
        with closing(sqlite3.connect(self.data / "assent.db")) as database:
            events = [event_of(row) for row in database.execute(f"{SELECT} ORDER BY at, chain_id, seq")]
        found = [each for each in events if (each.chain_id, each.seq) not in self.seen]
        self.seen.update((each.chain_id, each.seq) for each in found)
        return found


@dataclass(frozen=True)
class Act:
    """A command, and the type of the event that it must record."""

    command: str
    arguments: tuple[str, ...]
    type: str
    keep: str = ""
    """The name under which to keep the returned ID."""
    prepare: Callable[[Place], None] | None = None
    stdin: str | None = None
    by: str = "admin"
    """Whose token a command sends to a server."""


def reset_by_an_admin(place: Place) -> None:
    changes = {"password": "a password that eve knows"}
    on_data(place.settings, lambda node, tx: node[PeopleService].change_person(tx, "zoe", changes, by=EVE))


def open_second_project(place: Place) -> None:
    by = operator("default")
    on_data(place.settings, lambda node, tx: node[PeopleService].create_project(tx, "second", "Second", "owner", by=by))


def fill_original(place: Place) -> None:
    original = OriginalService(place.folder / "original.db")
    original.end(original.create({"summary": "x"}), "cancelled", "agent", minute(1))


def back_up_and_remove(place: Place) -> None:
    """Back up the data, then delete it; the restored data has the same events and one more."""
    assert here("backup", str(place.folder / "saved.tar"), "--data", str(place.data)).exit_code == 0
    place.new()
    shutil.rmtree(place.data)


ACTS = [
    Act("user create", ("zoe", "--role", "reviewer"), "person-created"),
    Act("user link", ("zoe",), "sign-in-link-created"),
    Act("user password", ("zoe", "--password-stdin"), "person-changed", stdin="correct horse battery\n"),
    Act("user confirm", ("zoe",), "person-changed", prepare=reset_by_an_admin),
    Act("user home", ("zoe", "second"), "person-changed", prepare=open_second_project),
    Act("token create", ("--kind", "agent", "--name", "ci"), "token-created", keep="token_id"),
    Act("token revoke", ("{token_id}",), "token-revoked"),
    Act("group set", ("team", "owner"), "group-created"),
    Act("group remove", ("team",), "group-removed"),
    Act("hold place", ("--reason", "Court"), "hold-placed", keep="hold_id"),
    Act("hold lift", ("{hold_id}",), "hold-lifted"),
    Act("project callback-secret", (), "secret-created"),
    Act("project callback-secret", ("--rotate",), "secret-created"),
    Act("secrets rotate-key", ("--new",), "secret-changed"),
    Act("audit checkpoint", (), "checkpoint-key-created"),
    Act("audit rotate-key", (), "checkpoint-key-created"),
    Act("project remove", ("second", "--yes"), "project-removed"),
    Act("import", ("{folder}/original.db",), "breakpoints-imported", prepare=fill_original),
    Act("restore", ("{folder}/saved.tar",), "data-restored", prepare=back_up_and_remove),
]
SERVED = {"serve"}
"""Commands with a separate test."""


def write_rules_file(place: Place) -> None:
    (place.folder / "rules.json").write_text(json.dumps(file_of("c.*")))


def send_event(place: Place) -> None:
    """Send a push event to the suspended trigger."""
    push = place.folder / "push.json"
    push.write_text(json.dumps({"headers": {"X-GitHub-Event": "push", "Host": "github.com"}, "body": PUSH}))
    place.kept["event_id"] = event = sent(place.desk, push)["eventId"]
    with place.desk.reviewer() as admin:
        [firing] = admin.firings(event_id=event).items
    place.kept["firing_id"] = firing.id


def give_up_a_firing(place: Place) -> None:
    send_event(place)
    with closing(sqlite3.connect(place.data / "assent.db", timeout=60)) as database, database:
        statement = "UPDATE assent_firings SET state = 'dead', because = NULL, next_at = NULL WHERE id = ?"
        database.execute(statement, (place.kept["firing_id"],))


def start_a_run(place: Place) -> None:
    """Start a run as an agent; the run waits for an answer."""
    with place.desk.agent() as agent:
        place.kept["run_id"] = agent.start_run("ask-first").id


def fail_a_run(place: Place) -> None:
    """Start a run as an agent; the run fails because it has no event to read."""
    with place.desk.agent() as agent:
        place.kept["run_id"] = run_id = agent.start_run("fix-ci").id
        while agent.run(run_id).state != "failed":
            pass


def refuse_a_delivery(place: Place) -> None:
    """Create a dead delivery by having its receiver respond with 400."""
    with scripted([Say(400, {})]) as receiver:
        asked = place.desk.asked(callback_url=f"{receiver.url}/refused")
        place.kept["delivery_id"] = settled(place.desk, asked.id, "dead")


def fetch_receipt(place: Place) -> None:
    done = receipt_call(place.desk, "get", approved(place.desk), "-o", str(place.folder / "receipt.json"))
    assert done.exit_code == 0, done.output


SECRETS = ("--set", 'secrets=["env:HUB_SECRET"]')
ON_PUSH = ("--id", "fix-red-main", "--on", "github.push(branch = 'main')", "--run", "fix-ci")
CALLS = [
    Act("rule add", ("a.*",), "rule-created", keep="rule_id"),
    Act("rule change", ("{rule_id}", "--note", "Checked."), "rule-changed"),
    Act("rule disable", ("{rule_id}",), "rule-changed"),
    Act("rule enable", ("{rule_id}",), "rule-changed"),
    Act("rule remove", ("{rule_id}",), "rule-removed"),
    Act("rule import", ("{folder}/rules.json",), "rule-created", prepare=write_rules_file),
    Act("breakpoint:approve-rule", ("b.*",), "rule-created", keep="rule_id"),
    Act("breakpoint:remove-rule", ("{rule_id}",), "rule-removed"),
    Act(
        "channel add",
        ("hook", "--type", "webhook", "--set", "url=https://example.org/hook", "--set", 'secrets=["env:WHSEC"]'),
        "channel-created",
    ),
    Act("channel set", ("hook", "--set", "answersAs=owner"), "channel-changed"),
    Act("channel link", ("hook", "T01:U02", "owner"), "account-linked"),
    Act("channel unlink", ("hook", "T01:U02"), "account-unlinked"),
    Act("route add", ("deploy.*", "--channel", "hook"), "route-created", keep="route_id"),
    Act("route remove", ("{route_id}",), "route-removed"),
    Act("channel remove", ("hook",), "channel-removed"),
    Act("source add", ("shop", "--kind", "github", *SECRETS), "source-created"),
    Act("trigger add", ON_PUSH, "trigger-created"),
    Act("trigger suspend", ("fix-red-main",), "trigger-changed"),
    Act("trigger discard", ("{firing_id}",), "firing-discarded", prepare=send_event),
    Act("trigger retry", ("{firing_id}",), "firing-retried", prepare=give_up_a_firing),
    Act("trigger replay", ("{event_id}",), "event-replayed"),
    Act("trigger resume", ("fix-red-main",), "trigger-changed"),
    Act("trigger remove", ("fix-red-main",), "trigger-removed"),
    Act("source remove", ("shop",), "source-removed"),
    Act("run cancel", ("{run_id}",), "run-cancelled", prepare=start_a_run),
    Act("run retry", ("{run_id}",), "run-retried", prepare=fail_a_run),
    Act("delivery retry", ("{delivery_id}",), "delivery-retried", prepare=refuse_a_delivery),
    Act("receipt rotate-key", (), "receipt-key-created"),
    Act("receipt verify", ("{folder}/receipt.json", "--consume"), "receipt-used", prepare=fetch_receipt, by="agent"),
]
"""Commands that perform an administrative action on a server."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Place]:
    """A place with a server that can send requests to this machine and has two registered processes."""
    place = Place(tmp_path, {"folder": str(tmp_path)})
    agent, admin = prepared(place.settings, "agent", "admin")
    place.settings.process_folder.mkdir(parents=True)
    (place.settings.process_folder / "fix_ci.py").write_text(PROCESS)
    (place.settings.process_folder / "ask_first.py").write_text(ASKING)
    env = {"HUB_SECRET": SECRET, "WHSEC": WHSEC, "outbound_allow": "127.0.0.0/8"}
    with server(place.settings, **env) as process:
        place.office = Desk(process.url, place.data, agent, admin)
        yield place


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with contextlib.chdir(tmp_path):
        yield Place(tmp_path, {"folder": str(tmp_path)})


def test_every_command_is_classified_once() -> None:
    found = [path for name in HOMES for path, _ in leaves(name, loaded(name))]
    performed = {each.command for each in ACTS} | SERVED
    kinds = [performed, set(BY_ENDPOINT), READS, set(ELSEWHERE), set(READS_DATA)]
    listed = [each for kind in kinds for each in kind]
    assert sorted(set(found) - set(listed)) == [], "list it with the act that it records, or why it records none"
    assert sorted(listed) == sorted(found)


def test_commands_that_use_the_data_directly_either_record_an_event_or_only_read() -> None:
    assert on_the_data() - {"worker"} == {each.command for each in ACTS} | SERVED | set(READS_DATA)


def test_every_endpoint_listed_for_a_command_exists() -> None:
    named = {each for several in BY_ENDPOINT.values() for each in several}
    assert sorted(named - endpoints() - forms()) == []


def test_every_command_that_calls_an_administrative_endpoint_is_tested() -> None:
    administrative = {each.endpoint.partition("?")[0] for each in ENDPOINT_ACTS}
    found = {command for command, several in BY_ENDPOINT.items() if administrative & set(several)}
    assert found - {"gate"} == {each.command for each in CALLS}


def test_every_act_has_a_known_event_type() -> None:
    assert {each.type for each in (*ACTS, *CALLS)} <= set(TYPES)


def test_every_command_that_changes_data_directly_records_the_actor_and_the_old_and_new_values(place: Place) -> None:
    assert here("user", "list", "--data", str(place.data)).exit_code == 0
    for act in ACTS:
        if act.prepare is not None:
            act.prepare(place)
        if place.data.exists():
            place.new()
        arguments = [each.format(**place.kept) for each in act.arguments]
        called = (*act.command.split(), *arguments, "--data", str(place.data), "--json")
        done = here(*called, stdin=act.stdin)
        assert done.exit_code == 0, (act.command, done.output)
        if act.keep:
            place.kept[act.keep] = json.loads(done.stdout)["id"]
        assert_recorded(place.new(), act.type, act.command, actor="system:cli", via=None)
    assert here_json("audit", "verify", "--data", str(place.data))["findings"] == []


def test_every_command_over_http_records_the_actor_the_token_and_the_old_and_new_values(served: Place) -> None:
    tokens = {"admin": served.desk.reviewer_token, "agent": served.desk.agent_token}
    actors = {"admin": "person:owner", "agent": "agent:"}
    for act in CALLS:
        if act.prepare is not None:
            act.prepare(served)
        served.new()
        arguments = [each.format(**served.kept) for each in act.arguments]
        called = (*act.command.split(), *arguments, "--json")
        done = here(*called, ASSENT_URL=served.desk.url, ASSENT_TOKEN=tokens[act.by])
        assert done.exit_code == 0, (act.command, done.output)
        if act.keep:
            body = json.loads(done.stdout)
            served.kept[act.keep] = body.get("rule", body)["id"]
        assert_recorded(served.new(), act.type, act.command, actor=actors[act.by], via="token:tok_")
    assert here_json("audit", "verify", "--data", str(served.data))["findings"] == []


def test_a_gate_records_an_event_when_it_consumes_the_receipt(served: Place) -> None:
    with served.desk.reviewer() as admin:
        admin.add_rule("*", "auto-approve")
    served.new()
    called = ("gate", "--agent-id", "tester", "--question", "Shall I?", "--", "true")
    done = run(*called, env=served.desk.as_agent(), cwd=served.folder)
    assert done.returncode == 0, done.stderr
    assert_recorded(served.new(), "receipt-used", "gate", actor="agent:", via="token:tok_")


def test_read_only_commands_record_no_event(place: Place) -> None:
    at = ("--data", str(place.data))
    fill_original(place)
    [imported] = here_json("import", str(place.folder / "original.db"), *at)["imported"]
    here_json("audit", "checkpoint", *at)
    (place.folder / "assent.yaml").write_text(ASSENT_YAML)
    place.new()
    for command, arguments in READS_DATA.items():
        given = [each.format(**place.kept, breakpoint_id=imported["id"]) for each in arguments]
        done = here(*command.split(), *given, *at)
        assert done.exit_code == 0, (command, done.output)
        assert place.new() == [], command


def test_starting_a_server_records_the_first_token_the_sign_in_link_and_the_configured_objects(place: Place) -> None:
    (place.folder / "assent.yaml").write_text(ASSENT_YAML)
    port = free_port()
    called = [*COMMAND, "serve", "--port", str(port), "--data", str(place.data)]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(called, env=environment(), cwd=place.folder, stdout=quiet, stderr=quiet)
    try:
        assert ready(f"http://127.0.0.1:{port}", process)
    finally:
        process.terminate()
        process.wait()
    new = place.new()
    for act in ("token-created", "sign-in-link-created"):
        assert_recorded(new, act, "serve", actor="system:cli", via=None)
    assert_recorded(new, "source-created", "serve", actor="system:", via=None)
    assert here_json("audit", "verify", "--data", str(place.data))["findings"] == []
