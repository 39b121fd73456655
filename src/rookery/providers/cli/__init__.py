"""`rookery auth` and `rookery models`: keys of providers, and the models they offer."""
