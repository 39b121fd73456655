"""Model providers: one module for each wire format, and `models.toml` with what is known of models.

`open_provider` opens one by name; each yields the chunks of `engine.ports`. A provider retries
nothing and keeps nothing between requests.
"""
