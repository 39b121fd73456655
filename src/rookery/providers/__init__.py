"""Model providers: one module per wire format, and `models.toml` with facts about models.

`open_provider` opens one by name; each yields the chunks of `engine.ports`. A provider never
retries and keeps nothing between requests.
"""
