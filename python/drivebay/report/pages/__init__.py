"""Pages: the report of reviews, the Bench, and the page of a sweep."""
