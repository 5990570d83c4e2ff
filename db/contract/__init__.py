"""Orders, jobs, models, trials and bests: one declaration of each for all who use it.

Storage, service, client and command line take fields, defaults and bounds from here."""
