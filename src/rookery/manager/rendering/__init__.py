"""Renders text of models, files and users as safe HTML.

Everything goes through `safe_html`. Nothing is hidden: invisible characters are spelled out.
"""
