"""Every command: under which heading it is listed, where it lives, and what is said of it before it is loaded."""

from typing import NamedTuple


class Home(NamedTuple):
    module: str
    told: str
    """The first line of its help; known here, so that whoever asks for the list does not wait for all to load."""
    heading: str = ""


_LISTED = {
    "Ask, from an agent or a script": {
        "ask": Home("ask", "Ask people, wait, and print the answer; the exit code tells the decision."),
        "wait": Home("ask", "Wait for the answer to a question asked before, and print it."),
        "gate": Home("gate", "Run a command only when it was approved; its exit code is then the command's own."),
        "cancel": Home("client", "Take a question back: for the agent that asked, or an admin."),
        "receipt": Home("receipt", "Signed proof of approvals."),
        "mcp": Home("mcp", "Let agents ask over MCP; none of its tools decides."),
        "hook": Home("hook", "Hooks that agents call before they act."),
        "doctor": Home(
            "doctor",
            "Find gates that fail open, and see whether a question arrives; writes no file, exits with 1 on a problem.",
        ),
    },
    "Answer": {
        "inbox": Home("client", "List what waits for an answer."),
        "show": Home("client", "Show a breakpoint, its answers and its history."),
        "approve": Home("client", "Approve exactly what is shown; on a terminal it asks first."),
        "reject": Home("client", "Reject, and say why."),
        "comment": Home("client", "Say something without deciding; the waiting agent sees it."),
    },
    "Ask less": {
        "rule": Home("rules", "Rules: which questions need no asking."),
        "breakpoint:approve-rule": Home(
            "breakpoint_commands", "Add a rule; one that says the same and is in force is kept, with the new note."
        ),
        "breakpoint:list-rules": Home("breakpoint_commands", "List the rules, in the order they are asked."),
        "breakpoint:remove-rule": Home("breakpoint_commands", "Remove a rule; what it decided stays explained."),
        "breakpoint:should-auto-approve": Home(
            "breakpoint_commands",
            "Tell whether a breakpoint would be approved without asking; assent rule check tells why in full.",
        ),
        "breakpoint:history": Home("breakpoint_commands", "List what became of past breakpoints, newest first."),
    },
    "Run": {
        "process": Home("runs", "What the server can run."),
        "run": Home("runs", "Durable runs of processes."),
        "trigger": Home("triggers", "Triggers: which events start which runs."),
        "source": Home("sources", "Sources: where events come from."),
        "hooks": Home("hooks", "Hooks of git that tell Assent what happens in a repository."),
    },
    "Tell people": {
        "channel": Home("channels", "Channels: ways to reach people."),
        "route": Home("routes", "Routes: who is told what, and where."),
        "delivery": Home("delivery", "Messages sent about breakpoints."),
    },
    "Operate": {
        "serve": Home("admin", "Run a node: API, web pages and worker."),
        "worker": Home("admin", "Run a worker without API and web pages, beside other nodes on PostgreSQL."),
        "migrate": Home("admin", "Bring the data to the newest schema."),
        "check": Home("admin", "Check the settings, the database and its schema; change nothing."),
        "token": Home("people", "Tokens of agents, people and services."),
        "user": Home("people", "People, and how they sign in."),
        "group": Home("people", "Groups, which are asked as one expert."),
        "project": Home("secrets", "A project and what belongs to it."),
        "secrets": Home("secrets", "Stored secrets and the keys they are encrypted with."),
        "backup": Home("backup", "Write everything into one verified file; the server may run."),
        "restore": Home("backup", "Put a backup back into an empty place; all of it, or nothing."),
        "audit": Home("audit", "Whether the history is what happened."),
        "fsck": Home("audit", "Check every promise that can be checked in the data; change nothing."),
        "hold": Home("audit", "Legal holds, which keep things from being purged."),
        "import": Home(
            "importing", "Take over what has ended in the original service; approves nothing, and may be repeated."
        ),
    },
}
HOMES = {
    name: home._replace(module=f"assent.cli.{home.module}", heading=heading)
    for heading, listed in _LISTED.items()
    for name, home in listed.items()
}
