"""Other drives of a report: digests of reviews, and the shipped results of the catalog."""
