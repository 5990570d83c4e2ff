"""Results of tuning: trials, bests and their files, signatures, peers' times and ladders."""
