"""A real browser for one task: headless, with an empty profile, limited to the hosts it may reach.

`BrowserSession` starts and ends it, `BrowserAction` is the tool, `KnownOrigins` remembers
allowed sites. It never downloads a browser and keeps nothing after the task.
"""
