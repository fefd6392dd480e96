"""Charts of a profile as Vega-Lite: data, drawn by the page, as PNG and as SVG alike."""
