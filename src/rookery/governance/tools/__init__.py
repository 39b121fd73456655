"""The tools by which a model selects an intent and asks for more scope.

They only say what is wanted; `governance` decides.
"""
