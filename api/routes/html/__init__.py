"""Routes for browsers: pages for people, and the files that pages load."""
