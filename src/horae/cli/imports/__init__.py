"""``horae import``: bring schedules from cron and other schedulers."""
