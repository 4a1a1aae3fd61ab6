"""Commands for operators: ``horae db``, ``config``, ``check``, ``doctor``."""
