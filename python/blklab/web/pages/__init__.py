"""The pages of the site: a module makes a list, and the page of one of its rows."""
