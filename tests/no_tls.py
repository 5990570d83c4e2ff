"""What tests give to HTTP clients that ask services on this machine, which have no TLS."""

import ssl

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""It trusts no certificate. Without it each new client would read the machine's, for 20 ms."""
