"""Tables of a profile as rows of text, drawn by the terminal and by the page alike."""
