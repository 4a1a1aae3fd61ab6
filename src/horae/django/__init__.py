"""Horae in a Django project: an application from ``settings.HORAE``, on Django's own database and in its transactions.

::

    # settings.py
    INSTALLED_APPS = [..., "horae.django"]  # finds the module `jobs` of every installed app
    HORAE = {}

    # shop/jobs.py
    from horae.django.app import app

    @app.job("confirm")
    def confirm(order_id: int) -> None: ...

``DJANGO_SETTINGS_MODULE=project.settings horae worker horae.django.app:app`` runs them. Needs Django, which you bring.
"""
