"""What builds and proves the project, and is no part of the wheel."""
