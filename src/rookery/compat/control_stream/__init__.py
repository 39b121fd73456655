"""`--stdin-prompt-stream`: a program drives a run with lines of JSON.

`StreamClient` reads commands and writes events; docs/schemas describes both. It only translates,
and makes no decisions about tasks.
"""
