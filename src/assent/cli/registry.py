"""All commands, with their module, summary and help heading."""

from typing import NamedTuple

SUMMARY = "Approval gates for AI agents."


class Home(NamedTuple):
    module: str
    told: str
    """The first line of the command's help, repeated so that listing the commands does not load all modules."""
    heading: str = ""
    adds: tuple[str, ...] = ()
    """Modules in `assent.cli` with further subcommands, which need the server's code."""


_LISTED = {
    "Agents and scripts": {
        "ask": Home(
            "breakpoints.commands.ask",
            "Ask a question, wait for the answer, and print it. The exit code reflects the decision.",
        ),
        "wait": Home("breakpoints.commands.ask", "Wait for the answer to an earlier question and print it."),
        "gate": Home("agents.gate", "Run a command only if it is approved, and exit with the command's exit code."),
        "cancel": Home(
            "breakpoints.commands.review", "Cancel a breakpoint. Only admins and the agent that created it can do this."
        ),
        "receipt": Home("policy.commands.receipts", "Manage receipts (signed proof of approval)."),
        "mcp": Home(
            "agents.mcp.commands",
            "Run an MCP server that lets agents ask questions. Its tools cannot approve or reject.",
        ),
        "hook": Home("agents.hooks.commands", "Manage hooks that agents call before acting."),
        "doctor": Home(
            "agents.doctor.commands",
            "Find gates that fail open, and send a test question. The exit code is 1 if there is a problem.",
        ),
    },
    "Reviewers": {
        "inbox": Home("breakpoints.commands.review", "List pending breakpoints."),
        "show": Home("breakpoints.commands.review", "Show a breakpoint with its answers and history."),
        "approve": Home(
            "breakpoints.commands.review",
            "Approve a breakpoint exactly as shown. In a terminal, you are asked for confirmation first.",
        ),
        "reject": Home("breakpoints.commands.review", "Reject a breakpoint, optionally with a reason."),
        "comment": Home(
            "breakpoints.commands.review", "Add a comment without approving or rejecting. The waiting agent can see it."
        ),
    },
    "Auto-approval rules": {
        "rule": Home("policy.commands.rules", "Manage auto-approval rules."),
        "breakpoint:approve-rule": Home(
            "policy.commands.babysitter", "Add a rule. If an identical active rule exists, only its note is updated."
        ),
        "breakpoint:list-rules": Home("policy.commands.babysitter", "List the rules in evaluation order."),
        "breakpoint:remove-rule": Home(
            "policy.commands.babysitter", "Remove a rule. Its past decisions stay in the history."
        ),
        "breakpoint:should-auto-approve": Home(
            "policy.commands.babysitter",
            "Check whether a breakpoint would be auto-approved. For a full explanation, run `assent rule check`.",
        ),
        "breakpoint:history": Home(
            "policy.commands.babysitter", "List past breakpoints and their outcomes, newest first."
        ),
    },
    "Runs and triggers": {
        "process": Home("runs.commands", "Show the processes that the server can run."),
        "run": Home("runs.commands", "Manage durable process runs."),
        "trigger": Home(
            "triggers.commands.triggers",
            "Manage triggers, which start runs when matching events arrive.",
            adds=("validate",),
        ),
        "source": Home("triggers.commands.sources", "Manage trigger event sources."),
        "hooks": Home("triggers.commands.git_hooks", "Manage Git hooks that report repository activity to Assent."),
    },
    "Notifications": {
        "channel": Home("delivery.commands.channels", "Manage notification channels."),
        "route": Home("delivery.commands.routes", "Manage routes, which determine who is notified and where."),
        "delivery": Home("delivery.commands.deliveries", "Inspect and retry notification deliveries."),
    },
    "Administration": {
        "serve": Home("cli.admin", "Run a node with the API, the web interface and a worker."),
        "worker": Home(
            "cli.admin", "Run a worker without the API and web interface, alongside other nodes (PostgreSQL only)."
        ),
        "migrate": Home("cli.admin", "Migrate the database to the latest schema."),
        "check": Home("cli.admin", "Check the settings, the database and its schema without changing anything."),
        "token": Home("cli.people", "Manage tokens for agents, people and services."),
        "user": Home("cli.people", "Manage people and how they sign in."),
        "group": Home("cli.people", "Manage groups, each of which counts as one expert."),
        "project": Home("cli.secrets", "Manage projects."),
        "secrets": Home("cli.secrets", "Manage stored secrets and their encryption keys."),
        "backup": Home("cli.backup", "Back up all data to a single verified file. The server can keep running."),
        "restore": Home(
            "cli.backup", "Restore a backup to an empty location. If an error occurs, nothing is restored."
        ),
        "audit": Home("cli.audit", "Verify, sign and export the audit log."),
        "fsck": Home("cli.audit", "Check all data invariants without changing anything."),
        "hold": Home("cli.audit", "Manage legal holds, which exempt content from retention."),
        "import": Home(
            "cli.importing",
            "Import completed breakpoints from the original service. You can repeat this safely. Nothing is approved.",
        ),
    },
}
HOMES = {
    name: home._replace(module=f"assent.{home.module}", heading=heading)
    for heading, listed in _LISTED.items()
    for name, home in listed.items()
}
