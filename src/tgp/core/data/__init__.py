"""Dated tables that ship with the package: GPU models and their names, regions of the providers' locations."""
