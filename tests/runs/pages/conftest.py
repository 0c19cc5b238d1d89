from tests.support.pages import settings

__all__ = ["settings"]
