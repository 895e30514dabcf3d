"""`make test-live`: one machine of a real account, from a request to a Node and back, for maintainers with a key.

It costs money, so it refuses by default, buys one machine below a cap, and terminates it in any case: at its end, at a
signal, and by a second process when the first one dies.
"""
