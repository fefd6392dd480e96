"""Whatever people look at: sentences, tables and charts of a profile, in the terminal or as HTML.

`view` reads a profile (docs/reference/formats.md). `sentences` and `tables` describe it in words
and figures, once for both. `terminal` and `page` lay them out.
"""
