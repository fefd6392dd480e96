"""Charts of a profile as Vega-Lite specifications with data, for pages, PNG and SVG."""
