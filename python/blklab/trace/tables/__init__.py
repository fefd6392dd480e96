"""Tables of a profile as rows of text, for the terminal and for pages."""
