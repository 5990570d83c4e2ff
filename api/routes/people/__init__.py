"""What browsers are sent: pages for people, and the files that belong to them."""
