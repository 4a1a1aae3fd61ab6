"""What an application declares: jobs with their options, ``jobs.conf`` over them, and a check of all of it."""
