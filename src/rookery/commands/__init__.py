"""Static analysis of shell commands before they run.

`read` in `grammar.py` is the only parser of shell text; `tables/*.toml` describe known programs.
`CommandJudge` combines both into a `Judgement`, and `CommandRules` applies the user's allow and
deny lists. The package reads the disk but runs nothing, and reports a doubt where it is not sure.
"""
