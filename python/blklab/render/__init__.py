"""Output for people: sentences, tables and charts, in the terminal, as HTML and as Markdown.

`view` reads a profile (docs/reference/formats.md). `sentences` and `tables` describe it, both for
the terminal and for pages. `terminal` and `page` lay them out.
"""
