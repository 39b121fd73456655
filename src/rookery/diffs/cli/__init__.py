"""`rookery review` and `rookery commit`."""
