"""The text of documents, extracted in a separate process that can be killed.

`document_text` starts it with limits on time and memory. Its output is untrusted text.
"""
