"""What an order, a job and a best are: declared once, for storage, service, client and shell."""
