"""The text of documents, read by a process of its own that may be killed.

`document_text` starts it with bounds on time and memory. What it returns is text and never
trusted.
"""
