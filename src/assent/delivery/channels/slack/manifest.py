"""The manifest of the Slack app, to paste into Slack."""

from typing import Any

SCOPES = (
    *("chat:write", "im:write", "users:read", "users:read.email"),
    *("channels:history", "groups:history", "im:history"),
)


def manifest(base_url: str, *, socket: bool, channel_id: str = "CHANNEL-ID") -> dict[str, Any]:
    """Return the app's manifest; without Socket Mode, it contains the channel's callback URL."""
    address = {} if socket else {"request_url": f"{base_url.rstrip('/')}/callbacks/{channel_id}"}
    return {
        "display_information": {
            "name": "Assent",
            "description": "Approve or reject actions requested by AI agents.",
        },
        "features": {
            "app_home": {"messages_tab_enabled": True, "messages_tab_read_only_enabled": True},
            "bot_user": {"display_name": "Assent", "always_online": True},
        },
        "oauth_config": {"scopes": {"bot": list(SCOPES)}},
        "settings": {
            "interactivity": {"is_enabled": True, **address},
            "org_deploy_enabled": False,
            "socket_mode_enabled": socket,
            "token_rotation_enabled": False,
        },
    }
