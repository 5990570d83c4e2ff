"""What goes over the wire: one file a noun, each with its examples."""
