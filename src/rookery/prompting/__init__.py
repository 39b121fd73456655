"""What a model is told: system prompt, rules, modes, skills, slash commands, mentions, environment.

`system_prompt` and `environment` write it, the other modules read the files it comes
from. It returns text and values, and changes nothing.
"""
