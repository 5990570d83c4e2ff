"""How a layer finds the kernel for a shape, remembers it, and tells why there is none."""
