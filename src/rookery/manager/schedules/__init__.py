"""Sessions that start at a time, on a cron line, or by a webhook."""
