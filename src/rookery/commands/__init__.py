"""What a shell command would do, found out before it runs.

`read` in `grammar.py` is the one reader of shell text, `tables/*.toml` hold what is known of
programs. `CommandJudge` puts both together in a `Judgement`; `CommandRules` applies the user's
lists. The package reads the disk but runs nothing, and says "unknown" where it is not sure.
"""
