"""All commands, with their module, summary and help heading."""

from typing import NamedTuple

SUMMARY = "Approval gates for AI agents."


class Home(NamedTuple):
    module: str
    told: str
    """The first line of its help, repeated here so that listing the commands does not load all modules."""
    heading: str = ""


_LISTED = {
    "Agents and scripts": {
        "ask": Home("ask", "Ask a question, wait for the answer, and print it. The exit code reflects the decision."),
        "wait": Home("ask", "Wait for the answer to an earlier question and print it."),
        "gate": Home("gate", "Run a command only if it is approved, and exit with the exit code of the command."),
        "cancel": Home("client", "Cancel a breakpoint. Only admins and the agent that created it can do this."),
        "receipt": Home("receipt", "Manage receipts, which are signed proof of approval."),
        "mcp": Home("mcp", "Run an MCP server that lets agents ask questions. Its tools cannot approve or reject."),
        "hook": Home("hook", "Manage hooks that agents call before acting."),
        "doctor": Home(
            "doctor",
            "Find gates that fail open, and send a test question. The exit code is 1 if there is a problem.",
        ),
    },
    "Reviewers": {
        "inbox": Home("client", "List pending breakpoints."),
        "show": Home("client", "Show a breakpoint with its answers and history."),
        "approve": Home(
            "client", "Approve a breakpoint exactly as shown. In a terminal, you are asked for confirmation first."
        ),
        "reject": Home("client", "Reject a breakpoint, optionally with a reason."),
        "comment": Home("client", "Add a comment without approving or rejecting. The waiting agent can see it."),
    },
    "Auto-approval rules": {
        "rule": Home("rules", "Manage auto-approval rules."),
        "breakpoint:approve-rule": Home(
            "breakpoint_commands", "Add a rule. If an identical active rule exists, only its note is updated."
        ),
        "breakpoint:list-rules": Home("breakpoint_commands", "List the rules in evaluation order."),
        "breakpoint:remove-rule": Home("breakpoint_commands", "Remove a rule. Its past decisions stay in the history."),
        "breakpoint:should-auto-approve": Home(
            "breakpoint_commands",
            "Check whether a breakpoint would be auto-approved. For a full explanation, run `assent rule check`.",
        ),
        "breakpoint:history": Home("breakpoint_commands", "List past breakpoints and their outcomes, newest first."),
    },
    "Runs and triggers": {
        "process": Home("runs", "Show the processes that the server can run."),
        "run": Home("runs", "Manage durable process runs."),
        "trigger": Home("triggers", "Manage triggers, which start runs when matching events arrive."),
        "source": Home("sources", "Manage trigger event sources."),
        "hooks": Home("hooks", "Manage Git hooks that report repository activity to Assent."),
    },
    "Notifications": {
        "channel": Home("channels", "Manage notification channels."),
        "route": Home("routes", "Manage routes, which determine who is notified and where."),
        "delivery": Home("delivery", "Inspect and retry notification deliveries."),
    },
    "Administration": {
        "serve": Home("admin", "Run a node with the API, the web interface and a worker."),
        "worker": Home(
            "admin", "Run a worker without the API and web interface, alongside other nodes (PostgreSQL only)."
        ),
        "migrate": Home("admin", "Migrate the database to the latest schema."),
        "check": Home("admin", "Check the settings, the database and its schema without changing anything."),
        "token": Home("people", "Manage tokens for agents, people and services."),
        "user": Home("people", "Manage people and how they sign in."),
        "group": Home("people", "Manage groups, each of which counts as one expert."),
        "project": Home("secrets", "Manage projects."),
        "secrets": Home("secrets", "Manage stored secrets and their encryption keys."),
        "backup": Home("backup", "Back up all data to a single verified file. The server can keep running."),
        "restore": Home("backup", "Restore a backup to an empty location. If an error occurs, nothing is restored."),
        "audit": Home("audit", "Verify, sign and export the audit log."),
        "fsck": Home("audit", "Check all data invariants without changing anything."),
        "hold": Home("audit", "Manage legal holds, which exempt content from retention."),
        "import": Home(
            "importing",
            "Import completed breakpoints from the original service. You can repeat this safely. Nothing is approved.",
        ),
    },
}
HOMES = {
    name: home._replace(module=f"assent.cli.{home.module}", heading=heading)
    for heading, listed in _LISTED.items()
    for name, home in listed.items()
}
