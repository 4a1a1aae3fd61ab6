"""Time: instants, zones, cron and the calendars it makes."""
