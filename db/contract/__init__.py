"""The one declaration of orders, jobs, models, trials and bests.

Storage, service, client and command line take fields, defaults and bounds from here."""
