"""Pages for people: their contents, charts and forms, how they are rendered, and their files."""
