"""What a shell command would do, found out before it runs.

`CommandJudge` reads a line by a grammar of bash and returns a `Judgement`; `CommandRules`
applies the user's lists. It reads the disk but runs nothing, and says "unknown" where it is not
sure.
"""
