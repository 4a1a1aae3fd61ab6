"""The application of a Django project, made from ``settings.HORAE`` when it is first asked for."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from horae.django.application import DjangoHorae

    app: DjangoHorae

__all__ = ["app"]
_making = threading.RLock()


def __getattr__(name: str) -> Any:
    """Make the application when it is first asked for, because settings may not be read while modules load."""
    if name != "app":
        raise AttributeError(f"module 'horae.django.app' has no attribute {name!r}")
    with _making:
        if "app" not in globals():
            from horae.django.application import from_settings

            globals()["app"] = from_settings()
        ready()
        return globals()["app"]


def ready() -> None:
    """Set Django up where a worker, and not Django, has started the process."""
    import django
    from django.apps import apps

    if not apps.ready and not apps.loading:
        django.setup()
