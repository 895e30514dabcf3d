"""`python -m tgp` is `tgp`."""

from tgp.app.main import main

main()
