"""Pages for people: what they show, how it is drawn, and the files they are made of."""
