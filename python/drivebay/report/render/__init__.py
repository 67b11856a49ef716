"""Renderers of charts: HTML and Plotly for pages, SVG for stills and pictures, files."""
