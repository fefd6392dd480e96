"""Text: what is safe to print, near names, natural order, patterns of labels."""
