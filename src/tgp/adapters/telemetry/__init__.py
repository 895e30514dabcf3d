"""What engineers read: logs and metrics; and the journal that keeps them in step with what users read."""
