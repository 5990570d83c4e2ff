"""The TLS context for HTTP clients of services on this machine, which do not use TLS."""

import ssl

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""It trusts no certificate. Without it, each new client would spend 20 ms on reading the machine's
certificates."""
