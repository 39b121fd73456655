"""The way out for commands in the sandbox: a proxy of ours that decides by host."""
