"""The tools by which a model selects an intent, asks for more scope, and leaves lessons.

They only say what is wanted; `governance` decides.
"""
