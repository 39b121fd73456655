"""Text of models, files and users as HTML that can do no harm."""
