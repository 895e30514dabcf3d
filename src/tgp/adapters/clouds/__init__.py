"""The providers of machines, a folder each. They share how to send and how to read, and do not know each other."""
