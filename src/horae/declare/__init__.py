"""Declarations of an application: jobs with their options, ``jobs.conf`` over them, and a check of both."""
