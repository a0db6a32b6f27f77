"""One script a public claim: it measures, prints one table and keeps the result as JSON."""
