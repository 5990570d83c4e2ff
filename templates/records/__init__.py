"""Records of a log, and traces of MetaSchedule."""
