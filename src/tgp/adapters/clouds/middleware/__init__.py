"""What every provider needs and no client repeats: pace, patience and counting, hung around the `Cloud` port."""
