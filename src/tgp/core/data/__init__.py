"""Dated tables that ship with the house: what GPUs there are and what they are called, where providers' places lie."""
