"""Building blocks of the report: text, colours, markup, runs, and figures as HTML."""
