"""How the launches of a program follow each other."""
