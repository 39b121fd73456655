"""Text of models, files and users as HTML that can do no harm.

Everything goes through `safe_html`; nothing is hidden, invisible characters are spelled out.
"""
