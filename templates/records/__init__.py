"""MetaSchedule records and traces."""
