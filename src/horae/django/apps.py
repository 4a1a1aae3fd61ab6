"""Django's configuration of this package: finds the jobs that the project declares."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class HoraeConfig(AppConfig):  # type: ignore[misc]  # Django has no types
    """Imports the module ``jobs`` of every installed app, as the admin finds ``admin``."""

    name = "horae.django"
    label = "horae"
    verbose_name = "Horae"

    def ready(self) -> None:
        autodiscover_modules("jobs")
