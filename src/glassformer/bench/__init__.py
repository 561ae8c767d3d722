"""glassformer against its peers and against itself, always in one run, interleaved, as ratios. Compile time apart."""
