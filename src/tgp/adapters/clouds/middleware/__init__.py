"""What every provider needs and no client repeats: rate limits, retries and counts around the `Cloud` port."""
