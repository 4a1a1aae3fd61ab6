"""Commands for whoever runs an installation: ``horae db``, ``config``, ``check``, ``doctor``."""
