"""Whatever people look at: sentences, tables and charts of a profile, in the terminal or as HTML.

A profile (docs/formats.md) is seen through `view`; `sentences` and `tables` say it in words and
figures, once for both; `terminal` and `page` lay them out.
"""
