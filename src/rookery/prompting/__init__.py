"""Everything a model reads: system prompt, rules, modes, skills, slash commands, mentions,
environment.

`system_prompt` and `environment` produce the text; the other modules read the files it comes from.
The package returns text and values, and changes nothing.
"""
